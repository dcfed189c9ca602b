//! Questions to a library that may block: each on a thread of its own, and one at a time.
//!
//! Whoever asks may give up, and the thread cannot. So the next one waits for the answer to the
//! same question: a library that hangs has one thread, and its error reaches somebody at last.
//!
//! Not here: what is asked (`kerberos`).

use std::{io, thread};

use tokio::sync::{Mutex, oneshot};

/// One question, asked again and again.
#[derive(Debug)]
pub(crate) struct Apart<T>(Mutex<Option<oneshot::Receiver<io::Result<T>>>>);

impl<T> Default for Apart<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + 'static> Apart<T> {
    /// An answer that comes after this call, perhaps to somebody who has given up.
    pub(crate) async fn ask(
        &self,
        question: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut asked = self.0.lock().await;
        // An answer that is there already may be old.
        asked.take_if(|it| !matches!(it.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        let answer = match &mut *asked {
            Some(running) => running,
            none => {
                let (sender, receiver) = oneshot::channel();
                let thread = thread::Builder::new().name("lockkeeper-kerberos".to_owned());
                thread.spawn(|| sender.send(question()))?;
                none.insert(receiver)
            }
        };
        answer.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::mpsc,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Answers with a number, as soon as that is sent.
    fn question() -> (mpsc::Sender<u32>, impl FnOnce() -> io::Result<u32>) {
        let (sender, receiver) = mpsc::channel();
        (sender, move || Ok(receiver.recv().unwrap()))
    }

    #[test]
    fn who_asks_gets_the_answer_to_one_who_has_given_up() {
        let apart = Apart::default();
        let (answer, first) = question();
        assert!(poll(apart.ask(first)).is_pending());
        for _ in 0..3 {
            let again = apart.ask(|| panic!("a second thread"));
            assert!(poll(again).is_pending());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut asked = pin!(apart.ask(|| panic!("a second thread")));
            assert!(poll(asked.as_mut()).is_pending());
            answer.send(1).unwrap();
            assert_eq!(asked.await.unwrap(), 1);
            assert_eq!(apart.ask(|| Ok(2)).await.unwrap(), 2);
        });
    }

    #[test]
    fn an_answer_that_nobody_has_waited_for_is_not_used() {
        let apart = Apart::default();
        let (answer, first) = question();
        assert!(poll(apart.ask(first)).is_pending());
        answer.send(1).unwrap();
        while apart
            .0
            .blocking_lock()
            .as_ref()
            .is_some_and(oneshot::Receiver::is_empty)
        {
            thread::yield_now();
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(apart.ask(|| Ok(2))).unwrap(), 2);
    }
}
