//! One meter for many locks: what it counts, and what the crate `metrics` is
//! told.
//!
//! Not here: what each number means (`holds`, `releases`).

mod support;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex as StdMutex},
};

use lockkeeper_recipes::{
    Election, LockMeter, Mutex, PlainMutex, ReentrantMutex, RwLock, Semaphore,
};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use support::{client, server, waiting::soon};

#[tokio::test]
async fn each_kind_of_lock_counts_into_its_meter() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("all");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    let plain = PlainMutex::new(&client, "/plain")
        .unwrap()
        .with_meter(&meter);
    let shared = RwLock::new(&client, "/rw").unwrap().with_meter(&meter);
    let limit = Semaphore::new(&client, "/semaphore", 2)
        .unwrap()
        .with_meter(&meter);
    let own = ReentrantMutex::new(&client, "/own")
        .unwrap()
        .with_meter(&meter);
    let election = Election::new(&client, "/election")
        .unwrap()
        .with_meter(&meter);

    let guards = [
        mutex.lock().await.unwrap(),
        plain.lock().await.unwrap(),
        shared.read().await.unwrap(),
        limit.acquire().await.unwrap(),
        election.elect().await.unwrap(),
    ];
    let reentrant = own.lock("a").await.unwrap();
    assert_eq!((meter.metrics().acquired, meter.metrics().held), (6, 6));
    assert!(shared.try_write().await.unwrap().is_none());
    assert_eq!(meter.metrics().refused, 1);
    let before = meter.metrics().requests;
    for guard in guards {
        guard.release().await.unwrap();
    }
    reentrant.release().await.unwrap();
    let after = meter.metrics();
    assert_eq!((after.held, after.waiting, after.hold.count()), (0, 0, 6));
    assert_eq!(after.requests, before + 6, "one delete for each");
}

#[tokio::test]
async fn an_attempt_waits_until_it_is_granted_or_dropped() {
    let server = server().await;
    let client = client(&server).await;
    let meter = LockMeter::new("one");
    let mutex = Mutex::new(&client, "/mutex").unwrap().with_meter(&meter);
    let now = || (meter.metrics().waiting, meter.metrics().held);
    let held = mutex.lock().await.unwrap();
    assert_eq!(now(), (0, 1));
    let (one, two) = (
        mutex.enqueue().await.unwrap(),
        mutex.enqueue().await.unwrap(),
    );
    assert_eq!(now(), (2, 1));
    drop(two);
    assert_eq!(now(), (1, 1));
    held.release().await.unwrap();
    let held = soon(one.wait()).await.unwrap();
    assert_eq!(now(), (0, 1));
    drop(held);
    assert_eq!(now(), (0, 0));
}

/// What a recorder of the crate `metrics` was told, by name and labels.
#[derive(Clone, Debug, Default)]
struct Told(Arc<StdMutex<BTreeMap<String, f64>>>);

struct Cell(Told, String);

impl Cell {
    fn add(&self, number: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += number;
    }
}

impl CounterFn for Cell {
    fn increment(&self, number: u64) {
        self.add(f64::from(u32::try_from(number).unwrap()));
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Cell {
    fn increment(&self, number: f64) {
        self.add(number);
    }
    fn decrement(&self, number: f64) {
        self.add(-number);
    }
    fn set(&self, _: f64) {}
}

impl HistogramFn for Cell {
    fn record(&self, _: f64) {
        self.add(1.0); // how many
    }
}

impl Told {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let labels = labels.collect::<Vec<_>>().join(",");
        Arc::new(Cell(self.clone(), format!("{} {labels}", key.name())))
    }
}

impl Recorder for Told {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.cell(key).into()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.cell(key).into()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.cell(key).into()
    }
}

#[tokio::test]
async fn a_recorder_is_told_what_a_meter_counts_and_nothing_of_other_locks() {
    let server = server().await;
    let client = client(&server).await;
    let told = Told::default();
    let meter = metrics::with_local_recorder(&told, || LockMeter::new("orders"));
    for path in ["/a", "/b", "/a"] {
        let mutex = Mutex::new(&client, path).unwrap().with_meter(&meter);
        let held = mutex.lock().await.unwrap();
        assert!(mutex.try_lock().await.unwrap().is_none());
        held.release().await.unwrap();
        drop(Mutex::new(&client, path).unwrap().lock().await.unwrap());
    }
    let counted = meter.metrics();
    assert_eq!((counted.acquired, counted.refused, counted.held), (3, 3, 0));
    let durations = counted.durations().map(|(name, all)| (name, all.count()));
    let all = (counted.counters().into_iter())
        .chain(counted.gauges())
        .chain(durations);
    let expected = all
        .filter(|(name, number)| *number > 0 || name.contains("held") || name.contains("waiting"));
    let expected: BTreeMap<_, _> = expected
        .map(|(name, number)| {
            (
                format!("{name} lock=orders"),
                f64::from(u32::try_from(number).unwrap()),
            )
        })
        .collect();
    assert_eq!(*told.0.lock().unwrap(), expected);
}
