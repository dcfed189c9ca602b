//! Handing a mutex over from process to process, and recording these events.
//!
//! Each process has a client of its own. Those of one step share the clock and the gate of their task.
//!
//! Not here: the rules that locks must keep (`check`).

use std::time::Duration;

use futures::future::join;
use lockkeeper_recipes::{Guard, LockError, LockTicket, Mutex};
use lockkeeper_session::Builder;
use tokio::time::sleep;

use super::{
    Worker,
    locks::{end_of, end_of_release},
};
use crate::{
    history::{Attempt, End, What},
    plan::{HandStep, Target},
};

const TARGET: Target = Target::Mutex(0);

impl Worker {
    pub(super) async fn hand_step(&mut self, step: HandStep) {
        let settings = self.next_settings();
        let Ok(client) = self.maker.clone().connect(settings).await else {
            return;
        };
        let mutex = Mutex::new(&client, "/locks/l0").expect("the path is valid");
        drop(client);
        let attempt = self.next_attempt();
        let locked = mutex.lock().await;
        drop(mutex);
        let mut held = self.entered(attempt, locked).await;
        for process in 1..=step.processes {
            let Some((attempt, guard)) = held else {
                return;
            };
            self.use_for(step.hold_ms, attempt, &guard).await;
            self.let_go(&[attempt]);
            if process == step.processes {
                let released = guard.release().await;
                return self.ended(&[attempt], &end_of_release(&released));
            }
            self.record(What::HandedOver(attempt));
            let handed = guard.hand_over().await;
            self.ended(&[attempt], &End::Dropped);
            let Ok(ticket) = handed else {
                return;
            };
            self.sim.lock().figures.count("locks handed over");
            sleep(Duration::from_millis(step.away_ms)).await;
            held = self.take_over(step, ticket).await;
        }
    }

    /// Takes the lock over, perhaps with a rival that has the same ticket.
    async fn take_over(&mut self, step: HandStep, ticket: LockTicket) -> Option<(Attempt, Guard)> {
        let attempt = self.next_attempt();
        let taking = self.taking(ticket.clone());
        let Some(later) = step.rival_ms else {
            let taken = taking.await;
            return self.entered(attempt, taken).await;
        };
        let (rival, rivals) = (self.next_attempt(), self.taking(ticket));
        let rivals = async {
            sleep(Duration::from_millis(later)).await;
            rivals.await
        };
        let (taken, other) = join(taking, rivals).await;
        let taken = self.entered(attempt, taken).await;
        let other = self.entered(rival, other).await;
        if taken.is_some() {
            self.sim
                .lock()
                .figures
                .count("locks taken over beside a rival");
        }
        taken.or(other)
    }

    /// Takes the lock over by a client of its own.
    fn taking(
        &mut self,
        ticket: LockTicket,
    ) -> impl Future<Output = Result<Guard, LockError>> + use<> {
        let (settings, maker) = (self.next_settings(), self.maker.clone());
        async move {
            let connect = |settings| maker.connect(settings);
            ticket.take_over_by(settings, connect).await
        }
    }

    /// Records whether the attempt has the lock.
    async fn entered(
        &mut self,
        attempt: Attempt,
        locked: Result<Guard, LockError>,
    ) -> Option<(Attempt, Guard)> {
        match locked {
            Ok(guard) => {
                let session = guard.client().snapshot().session_id.0;
                self.record(What::Granted {
                    attempt,
                    token: guard.fencing_token().get(),
                    node: guard.path(),
                    session,
                });
                self.use_for(0, attempt, &guard).await;
                Some((attempt, guard))
            }
            Err(error) => {
                let end = match error {
                    LockError::NotHandedOver { .. } => End::GivenUp,
                    error => end_of(&error),
                };
                self.ended(&[attempt], &end);
                None
            }
        }
    }

    /// Claims the lock, and writes under it, in the middle of this time.
    async fn use_for(&mut self, ms: u64, attempt: Attempt, guard: &Guard) {
        for part in 0..2 {
            self.claim(attempt, guard, None);
            sleep(Duration::from_millis(ms / 2)).await;
            if part == 0 && ms > 0 {
                self.use_lock(TARGET, attempt, guard).await;
            }
        }
        self.claim(attempt, guard, None);
    }

    fn next_attempt(&self) -> Attempt {
        self.ask(TARGET).first().copied().unwrap_or(Attempt(0))
    }

    fn next_settings(&mut self) -> Builder {
        self.maker.settings(self.rng.draw())
    }
}
