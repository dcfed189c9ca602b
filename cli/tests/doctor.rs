//! `lockkeeper doctor`: what is wrong with the servers, and what to do.

mod support;

use std::net::TcpListener;

use serde_json::Value;
use support::{Arm, Ended, ended, lockkeeper, objects};

on_both_arms!(the_doctor_finds_nothing_wrong_with_a_healthy_server);

fn the_doctor_finds_nothing_wrong_with_a_healthy_server(arm: &Arm) {
    let text = arm.said(&["doctor"]);
    assert!(text.ends_with("no problem found\n"), "{text}");
    let report = &objects(&arm.said(&["doctor", "--json"]))[0];
    let server = &report["servers"][0];
    assert_eq!(server["server"], *arm.connect);
    for key in ["round_trip_ms", "longest_session_ms"] {
        assert!(server[key].as_f64() > Some(0.0), "{key}: {report}");
    }
    for key in ["containers", "persistent_watches"] {
        assert_eq!(server[key], true, "{key}: {report}");
    }
    let clock = server["clock_ms"].as_i64().unwrap();
    assert!(clock.abs() < 1000, "{report}");
    let version = server["version"].as_str().unwrap();
    assert!(version.starts_with("3."), "{report}");
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert!(!arm.said(&["ls"]).contains("doctor"), "its nodes are gone");
    let no_write = objects(&arm.said(&["doctor", "--json", "--no-write"]));
    assert_eq!(no_write[0]["servers"][0]["containers"], Value::Null);
}

fn doctor(servers: &str) -> Ended {
    ended(&mut lockkeeper(&[
        "doctor",
        "--timeout",
        "1s",
        "--connect",
        servers,
    ]))
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let arm = Arm::embedded();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap().to_string();
    drop(free);
    let sick = doctor(&format!("{},{closed}", arm.connect)).ends(1);
    let problem = format!("problems: 1\n- {closed}: ");
    let cure = "\n  start the server, or correct the port\n";
    sick.shows(&problem).shows(cure);
    doctor(&closed).ends(69);
    let lost = doctor(&format!("{}/missing", arm.connect)).ends(1);
    lost.shows("no node was created below /");
}
