//! Wall time of the codec: encoding a create, decoding listings, splitting a stream into frames.
//!
//! Not here: instruction counts, which are the gate (`cost.rs`).

#![allow(
    missing_docs,
    reason = "criterion's macros generate functions without documentation"
)]

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use lockkeeper_bench::messages;

criterion_group!(codec, encode, decode, split);
criterion_main!(codec);

fn encode(criterion: &mut Criterion) {
    let request = messages::create_request();
    let mut out = BytesMut::new();
    criterion.bench_function("encode create", |bencher| {
        bencher.iter(|| {
            out.clear();
            messages::encode(black_box(&request), &mut out).unwrap();
            black_box(&out);
        });
    });
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode children");
    for names in [32, 1000] {
        let reply = messages::children_reply(names).unwrap();
        group.throughput(Throughput::Elements(names as u64));
        group.bench_function(names.to_string(), |bencher| {
            bencher.iter(|| messages::decode_children(black_box(&reply).clone()).unwrap());
        });
    }
    group.finish();
}

fn split(criterion: &mut Criterion) {
    const FRAMES: usize = 100;
    let stream = messages::stream(FRAMES).unwrap();
    let mut group = criterion.benchmark_group("split");
    group.throughput(Throughput::Elements(FRAMES as u64));
    group.bench_function("100 frames", |bencher| {
        bencher.iter_batched_ref(
            || BytesMut::from(&stream[..]),
            |input| messages::split_all(black_box(input)).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}
