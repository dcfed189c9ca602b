//! The machine by itself: time and bytes by hand.
