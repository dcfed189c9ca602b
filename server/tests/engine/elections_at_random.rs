//! Random cuts, stops, elections and lags, while clients write. No answered write is lost, and in
//! the end all members agree.

use std::{collections::BTreeMap, time::Duration};

use bytes::BytesMut;
use lockkeeper_proto::{CreateMode, Xid, frame, header::ReplyHeader, jute::Decode, jute::Reader};
use lockkeeper_server::engine::{ConnId, ServerId};
use proptest::prelude::*;

use crate::{
    stories::{LIMIT, join, refuses, sees},
    world::{MS, World, connect_frame, create, request_frame},
};

/// What happens to the members.
#[derive(Clone, Debug)]
enum Event {
    Cut(u32, u32),
    Mend(u32, u32),
    Stop(u32),
    Start(u32),
    Elect,
    Lag(u32),
    CatchUp(u32),
    /// A new client of this member starts a session and writes.
    Write(u32),
    Pass(u32),
}

fn event(members: u32) -> impl Strategy<Value = Event> {
    let one = move || 0..members;
    let link = move || (one(), one());
    prop_oneof![
        3 => link().prop_map(|(from, to)| Event::Cut(from, to)),
        4 => link().prop_map(|(from, to)| Event::Mend(from, to)),
        1 => one().prop_map(Event::Stop),
        3 => one().prop_map(Event::Start),
        1 => Just(Event::Elect),
        1 => one().prop_map(Event::Lag),
        2 => one().prop_map(Event::CatchUp),
        8 => one().prop_map(Event::Write),
        4 => (1..1500_u32).prop_map(Event::Pass),
    ]
}

/// The clients that write, and what they were told.
#[derive(Default)]
struct Clients {
    /// For each connection: the path to write, and whether the session has begun.
    writing: BTreeMap<ConnId, (String, bool)>,
    answered: Vec<String>,
}

impl Clients {
    fn begin(&mut self, world: &mut World, server: ServerId) {
        let id = world.connect_to(server);
        world.collect();
        if world.of(id).1 {
            return;
        }
        world.send(id, &connect_frame(4000));
        self.writing.insert(id, (format!("/{}", id.0), false));
    }

    /// The frame that a client has got, if there is a whole one.
    fn frame(world: &mut World, id: ConnId) -> Option<Reader> {
        let (sent, _): &mut (BytesMut, bool) = world.of(id);
        frame::split(sent, usize::MAX >> 1)
            .unwrap()
            .map(Reader::new)
    }

    /// A client that has its session writes. A write that succeeds is kept in mind.
    fn go_on(&mut self, world: &mut World) {
        let all: Vec<ConnId> = self.writing.keys().copied().collect();
        for id in all {
            while let Some(mut frame) = Self::frame(world, id) {
                let Some((path, has_begun)) = self.writing.get_mut(&id) else {
                    break;
                };
                if *has_begun {
                    let header = ReplyHeader::decode(&mut frame).unwrap();
                    self.answered
                        .extend(header.err.is_ok().then(|| path.clone()));
                    self.writing.remove(&id);
                } else {
                    *has_begun = true;
                    let node = create(path, CreateMode::Persistent);
                    world.send(id, &request_frame(Xid(1), &node));
                }
            }
        }
    }
}

fn run(members: u32, events: Vec<Event>) {
    let mut world = World::new(500);
    world
        .engine
        .set_ensemble(members, LIMIT, Duration::ZERO, world.now);
    let mut clients = Clients::default();
    let all = || (0..members).map(ServerId);
    let ends = all().flat_map(|server| [Event::Start(server.0), Event::CatchUp(server.0)]);
    let links = all().flat_map(|from| all().map(move |to| Event::Mend(from.0, to.0)));
    let end = links.chain(ends).chain([Event::Pass(100)]);
    let mut last = world.engine.last_zxid();
    for event in events.into_iter().chain(end) {
        let (engine, now) = (&mut world.engine, world.now);
        match event {
            Event::Cut(from, to) => engine.set_cut_between(ServerId(from), ServerId(to), true, now),
            Event::Mend(from, to) => {
                engine.set_cut_between(ServerId(from), ServerId(to), false, now);
            }
            Event::Stop(server) => engine.stop_server(ServerId(server), now),
            Event::Start(server) => engine.start_server(ServerId(server), now),
            Event::Elect => {
                engine.elect_another(now);
            }
            Event::Lag(server) => engine.set_lags(ServerId(server), true),
            Event::CatchUp(server) => engine.set_lags(ServerId(server), false),
            Event::Write(server) => clients.begin(&mut world, ServerId(server)),
            Event::Pass(ms) => world.pass(ms * MS),
        }
        world.pass(MS);
        clients.go_on(&mut world);
        world.engine.assert_sound();
        let now = world.engine.last_zxid();
        assert!(now >= last, "the transactions go backwards");
        last = now;
    }
    assert!(world.engine.leader().is_some());
    let paths = world.engine.paths();
    for path in &clients.answered {
        assert!(paths.contains(path), "{path} is lost");
    }
    for server in all() {
        assert!(!refuses(&mut world, server), "{server:?} does not serve");
        let id = join(&mut world, server);
        for path in &paths {
            assert!(sees(&mut world, id, path), "{server:?} misses {path}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_answered_write_is_lost_and_all_members_agree_in_the_end(
        (members, events) in prop_oneof![Just(3_u32), Just(5), Just(2)]
            .prop_flat_map(|members| (Just(members), prop::collection::vec(event(members), 1..60))),
    ) {
        run(members, events);
    }
}
