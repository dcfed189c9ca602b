//! How do I see locks as spans in my traces?
//!
//! A lock is a span of level debug with the name `lock`: it begins with the attempt and ends with
//! the release. Its fields are the path and the kind of lock; the grant with its token is an event
//! of it. It is a child of the span in which the program takes the lock. This program keeps the
//! spans in memory and prints them. A service has the exporter of `opentelemetry-otlp` in its place,
//! and `with_batch_exporter`: the simple one sends each span where it ends, and blocks the task. At
//! its end it calls `provider.shutdown()`, which sends what is left.

use lockkeeper::{Client, Mutex};
use lockkeeper_server::Server;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::Instrument;
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    // The span of a lock has the level debug.
    let targets = Targets::new()
        .with_target("opentelemetry", tracing::Level::INFO)
        .with_target("lockkeeper_recipes", tracing::Level::DEBUG);
    tracing_subscriber::registry()
        .with(layer.with_filter(targets))
        .init();

    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let pay = async {
        let guard = Mutex::new(&client, "/accounts/7")?.lock().await?;
        println!("paid, with token {}", guard.fencing_token());
        guard.release().await
    };
    pay.instrument(tracing::info_span!("pay", account = 7))
        .await?;

    let spans = exporter.get_finished_spans()?;
    for span in &spans {
        let took = span.end_time.duration_since(span.start_time)?;
        println!("{} took {took:?}: {:?}", span.name, span.attributes);
    }
    let named = |name: &str| spans.iter().find(|span| span.name == name);
    let (lock, pay) = (named("lock").unwrap(), named("pay").unwrap());
    assert_eq!(lock.parent_span_id, pay.span_context.span_id());
    let has_path = |field: &opentelemetry::KeyValue| field.value.as_str() == "/accounts/7";
    assert!(lock.attributes.iter().any(has_path));
    assert!(lock.events.iter().any(|event| event.name == "granted"));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
