//! What the fuzz targets call: any bytes in, a panic only when a promise is broken.

use crate::ConnectString;

/// Server lists: one that is read is printed as something that reads the same.
pub fn hosts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match text.parse::<ConnectString>() {
        Ok(servers) => assert_eq!(servers.to_string().parse(), Ok(servers)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
