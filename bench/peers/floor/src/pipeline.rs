//! Many requests in flight on one connection, in one thread.
//!
//! Each task is a state machine. One write sends the requests of all tasks that follow from one
//! read.

use std::{collections::VecDeque, io::Error, time::Instant};

use lockkeeper_bench::{
    Failure,
    args::{Args, Workload},
    histogram::Histogram,
    report,
    window::Window,
};

use crate::{
    connection::Connection,
    request::{self, Mode},
    root,
};

const BUFFER: usize = 256 * 1024;
const DATA: [u8; 100] = [b'x'; 100];

pub fn run(name: &str, args: &Args, background: bool) -> Result<String, Failure> {
    let mut connection = Connection::open(&args.server, BUFFER)?;
    let root = root();
    let mut made = vec![root.clone()];
    connection.must(&request::create(&root, &[], Mode::Persistent))?;
    let mut tasks = Vec::with_capacity(args.param);
    for number in 0..args.param {
        let path = match args.workload {
            Workload::GetPipelined => format!("{root}/data"),
            _ => format!("{root}/{number:04}"),
        };
        let is_needed = match args.workload {
            Workload::GetPipelined => number == 0,
            Workload::LockUncontended => true,
            _ => false,
        };
        if is_needed {
            connection.must(&request::create(&path, &DATA, Mode::Persistent))?;
            made.push(path.clone());
        }
        tasks.push(Task::new(args.workload, &path, background));
    }
    let window = Window::after_warm_up(args.seconds);
    let measuring = window.measure()?;
    let latencies = drive(&mut connection, tasks, window)?;
    let measured = measuring
        .join()
        .map_err(|_| "the measuring thread panicked")?;
    for path in made.iter().rev() {
        connection.call(&request::delete(path.as_bytes()))?;
    }
    connection.close()?;
    Ok(report::line(name, args, &latencies, measured, None))
}

/// A task: a round of requests that it repeats.
struct Task {
    /// The requests that start a round.
    first: Vec<Vec<u8>>,
    /// The operations of `first`, in the order of their replies. The reply to a create contains the
    /// path to delete.
    steps: &'static [Step],
    /// The step that ends a round. The time of later steps belongs to the next round.
    last: Step,
    began: Instant,
    node: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Get,
    Create,
    List,
    Delete,
}

impl Task {
    fn new(workload: Workload, path: &str, background: bool) -> Self {
        let (first, steps, last): (_, &[_], _) = match workload {
            Workload::GetPipelined => (
                vec![request::get_data(path, false)],
                &[Step::Get],
                Step::Get,
            ),
            Workload::LockUncontended => {
                let node = format!("{path}/_c_00000000-0000-0000-0000-000000000000-lock-");
                let create = request::create(&node, &[], Mode::EphemeralSequential);
                let last = if background { Step::List } else { Step::Delete };
                (
                    vec![create, request::get_children(path)],
                    &[Step::Create, Step::List],
                    last,
                )
            }
            _ => {
                let create = request::create(path, &[], Mode::Ephemeral);
                (vec![create], &[Step::Create], Step::Delete)
            }
        };
        Self {
            first,
            steps,
            last,
            began: Instant::now(),
            node: Vec::new(),
        }
    }

    /// Checks a reply, and returns the request that follows it, if there is one.
    fn replied(&mut self, step: Step, reply: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let fits = request::succeeded(reply)
            && match step {
                Step::Get => request::count(reply, request::REPLY_HEAD) == DATA.len(),
                Step::List => {
                    let mine = request::number(&self.node);
                    request::children(reply).all(|name| request::number(name) >= mine)
                }
                Step::Create | Step::Delete => true,
            };
        if !fits {
            return Err(Error::other("unexpected reply"));
        }
        if step == Step::Create {
            self.node = request::buffer(reply, request::REPLY_HEAD).to_vec();
        }
        let deletes = step != Step::Delete && self.steps.last() == Some(&step) && step != Step::Get;
        Ok(deletes.then(|| request::delete(&self.node)))
    }
}

fn drive(
    connection: &mut Connection,
    mut tasks: Vec<Task>,
    window: Window,
) -> Result<Histogram, Error> {
    let mut latencies = Histogram::default();
    let mut in_flight = VecDeque::with_capacity(2 * tasks.len());
    let begin = |index: usize,
                 task: &mut Task,
                 connection: &mut Connection,
                 in_flight: &mut VecDeque<_>| {
        task.began = Instant::now();
        for request in &task.first {
            connection.put(request);
        }
        in_flight.extend(task.steps.iter().map(|step| (index, *step)));
    };
    for (index, task) in tasks.iter_mut().enumerate() {
        begin(index, task, connection, &mut in_flight);
    }
    connection.flush()?;
    while let Some((index, step)) = in_flight.pop_front() {
        let task = &mut tasks[index];
        if let Some(delete) = task.replied(step, connection.next()?)? {
            connection.put(&delete);
            in_flight.push_back((index, Step::Delete));
        }
        if step == task.last && window.count(&mut latencies, task.began) {
            begin(index, task, connection, &mut in_flight);
        }
        if !connection.has_frame() {
            connection.flush()?;
        }
    }
    Ok(latencies)
}
