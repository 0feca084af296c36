//! The schedule with sources and clocks that are made up.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use super::member::{BatchId, CallId, SourceState};
use super::schedule::{Action, Schedule};

const STEP: Duration = Duration::from_millis(5);
const MB: f64 = 1e6;
const PIECE: u64 = 256 << 10;

/// A server: bytes a second, seconds until an answer begins, when it sends nothing, when it dies.
#[derive(Debug, Clone)]
struct Server {
    rate: f64,
    delay: f64,
    silent: Range<f64>,
    dies: f64,
    tells: bool,
    /// Connections that share its rate, each with one request at once.
    connections: usize,
}

impl Server {
    fn new(rate: f64, delay: f64) -> Self {
        Self {
            rate: rate * MB,
            delay,
            silent: f64::MAX..f64::MAX,
            dies: f64::MAX,
            tells: true,
            connections: 1,
        }
    }
}

struct Asked {
    batch: BatchId,
    due: f64,
    left: f64,
}

/// What happened.
#[derive(Debug, Default)]
struct Outcome {
    seconds: f64,
    finished: usize,
    failed: usize,
    /// Requests, and bytes that were sent, by source.
    requests: Vec<usize>,
    sent: Vec<f64>,
    opened: Vec<f64>,
    actions: Vec<Action>,
}

/// Reads `n_calls` vector reads of `size` bytes, `depth` at once, until all ended.
fn run(servers: &[Server], n_calls: usize, size: u64, depth: usize) -> Outcome {
    let mut schedule = Schedule::new(2);
    let mut queues: Vec<VecDeque<Asked>> = servers.iter().map(|_| VecDeque::new()).collect();
    let mut opening: Vec<Option<f64>> = vec![None; servers.len()];
    let mut out = Outcome {
        requests: vec![0; servers.len()],
        sent: vec![0.0; servers.len()],
        opened: vec![f64::NAN; servers.len()],
        ..Outcome::default()
    };
    for server in servers {
        let source = schedule.add(Duration::ZERO);
        schedule.members[source].tells_progress = server.tells;
        schedule.members[source].at_once = server.connections;
    }
    schedule.opened(0, Duration::ZERO, None);
    let n_pieces = size.div_ceil(PIECE);
    let mut read: BTreeMap<CallId, Vec<usize>> = BTreeMap::new();
    let mut submitted = 0;
    let mut now = Duration::ZERO;
    while out.finished + out.failed < n_calls {
        let time = now.as_secs_f64();
        assert!(time < 600.0, "it does not end: {schedule:?}");
        while submitted < n_calls && submitted - out.finished - out.failed < depth {
            let sizes = (0..n_pieces).map(|i| PIECE.min(size - i * PIECE));
            let call = schedule.submit(now, sizes);
            read.insert(call, vec![0; usize::try_from(n_pieces).unwrap()]);
            submitted += 1;
        }
        for (source, server) in servers.iter().enumerate() {
            if opening[source].is_some_and(|due| due <= time) {
                opening[source] = None;
                match server.dies <= time {
                    true => schedule.not_opened(source, now),
                    false => {
                        out.opened[source] = time;
                        let took = Duration::from_secs_f64(server.delay);
                        schedule.opened(source, now, Some((super::HEAD, took)));
                    }
                }
            }
            let queue = &mut queues[source];
            if server.dies <= time {
                for asked in queue.drain(..) {
                    schedule.failed(asked.batch, now);
                }
                continue;
            }
            // each connection answers the first request that no other answers
            for connection in 0..server.connections {
                let mut budget = server.rate * STEP.as_secs_f64() / server.connections as f64;
                if server.silent.contains(&time) {
                    budget = 0.0;
                }
                let mut is_left = |asked: &&mut Asked| asked.due <= time;
                while let Some(first) = queue.get_mut(connection).filter(&mut is_left) {
                    let came = first.left.min(budget);
                    if came <= 0.0 {
                        break;
                    }
                    first.left -= came;
                    budget -= came;
                    out.sent[source] += came;
                    schedule.heard(source, now);
                    if first.left > 0.0 {
                        break;
                    }
                    let batch = first.batch;
                    queue.remove(connection);
                    if let Some((call, fresh)) = schedule.done(batch, now) {
                        for piece in fresh {
                            read.get_mut(&call).unwrap()[piece] += 1;
                        }
                    }
                }
            }
        }
        for action in schedule.act(now) {
            match &action {
                Action::Read {
                    batch,
                    source,
                    pieces,
                    ..
                } => {
                    out.requests[*source] += 1;
                    let left = pieces
                        .iter()
                        .map(|i| PIECE.min(size - *i as u64 * PIECE) as f64)
                        .sum();
                    let due = time + servers[*source].delay;
                    let batch = *batch;
                    queues[*source].push_back(Asked { batch, due, left });
                }
                Action::Stop { batch } => {
                    queues
                        .iter_mut()
                        .for_each(|queue| queue.retain(|asked| asked.batch != *batch));
                    if let Some(source) = schedule.stopped(*batch, now) {
                        out.actions.push(Action::Silent { source });
                    }
                }
                Action::Open { source } => {
                    opening[*source] = Some(time + 2.0 * servers[*source].delay)
                }
                Action::Search { source } => schedule.not_found(*source, now),
                Action::Finished { call } => {
                    let pieces = read.remove(call).unwrap();
                    assert!(pieces.iter().all(|n| *n == 1), "{pieces:?}");
                    out.finished += 1;
                }
                Action::Failed { call } => {
                    read.remove(call).unwrap();
                    out.failed += 1;
                }
                Action::Silent { .. } | Action::Slow { .. } => {}
            }
            out.actions.push(action);
        }
        now += STEP;
    }
    out.seconds = now.as_secs_f64();
    out
}

const VECTOR: u64 = 8 << 20;

fn seconds_at(rate: f64, n_calls: usize) -> f64 {
    (n_calls as u64 * VECTOR) as f64 / (rate * MB)
}

#[test]
fn a_source_alone_gets_the_requests_of_the_caller() {
    let out = run(&[Server::new(100.0, 0.05)], 30, VECTOR, 4);
    assert_eq!((out.requests, out.finished), (vec![30], 30));
}

#[test]
fn one_good_source_is_enough_for_small_reads() {
    let servers = [Server::new(100.0, 0.01), Server::new(100.0, 0.01)];
    let out = run(&servers, 30, 100 << 10, 1);
    assert_eq!(out.requests, [30, 0]);
    assert!(out.opened[1].is_nan());
}

#[test]
fn two_sources_bring_nine_tenths_of_their_sum() {
    for (first, second, delay) in [
        (50.0, 50.0, 0.01),
        (50.0, 5.0, 0.01),
        (5.0, 50.0, 0.05),
        (80.0, 40.0, 0.1),
    ] {
        let servers = [Server::new(first, delay), Server::new(second, delay)];
        let out = run(&servers, 60, VECTOR, 6);
        let ratio = seconds_at(first + second, 60) / out.seconds;
        assert!(ratio > 0.9, "{first} and {second} MB/s: {ratio}");
        let sent: f64 = out.sent.iter().sum();
        assert!(sent < 1.03 * (60 * VECTOR) as f64, "{sent}");
    }
}

/// The requests of a source with several connections were so large that some of these had none.
#[test]
fn all_connections_of_a_source_are_used() {
    for (one, many) in [(60.0, 240.0), (20.0, 80.0), (50.0, 50.0)] {
        for order in [[0, 1], [1, 0]] {
            let both = [
                Server::new(one, 0.01),
                Server {
                    connections: 4,
                    ..Server::new(many, 0.01)
                },
            ];
            let out = run(&order.map(|i: usize| both[i].clone()), 120, VECTOR, 8);
            let ratio = seconds_at(one + many, 120) / out.seconds;
            assert!(ratio > 0.9, "{one} and {many} MB/s, {order:?}: {ratio}");
        }
    }
}

#[test]
fn what_falls_silent_costs_two_seconds_at_most() {
    for silent in [0, 1] {
        for tells in [true, false] {
            let mut servers = [Server::new(50.0, 0.01), Server::new(50.0, 0.01)];
            servers[silent].silent = 3.0..f64::MAX;
            servers[silent].tells = tells;
            let out = run(&servers, 60, VECTOR, 4);
            let ideal = 3.0 + (seconds_at(100.0, 60) - 3.0) * 2.0;
            assert!(out.seconds < ideal + 2.0, "{} of {ideal}", out.seconds);
            assert!(out.actions.contains(&Action::Silent { source: silent }));
        }
    }
}

#[test]
fn a_silent_source_without_others_is_waited_for() {
    let mut server = Server::new(50.0, 0.01);
    server.silent = 1.0..20.0;
    let out = run(&[server], 30, VECTOR, 4);
    assert_eq!((out.finished, out.requests), (30, vec![30]));
}

#[test]
fn a_source_that_dies_costs_what_it_had_not_sent() {
    let mut servers = [Server::new(50.0, 0.01), Server::new(50.0, 0.01)];
    servers[0].dies = 2.0;
    let out = run(&servers, 60, VECTOR, 4);
    let ideal = 2.0 + (seconds_at(100.0, 60) - 2.0) * 2.0;
    assert!(out.seconds < ideal + 1.0, "{} of {ideal}", out.seconds);
    assert_eq!(out.finished, 60);
}

#[test]
fn when_all_die_each_is_opened_again_before_that_is_told() {
    let mut servers = [Server::new(50.0, 0.01), Server::new(50.0, 0.01)];
    servers[0].dies = 1.0;
    servers[1].dies = 1.5;
    let out = run(&servers, 60, VECTOR, 4);
    assert!(out.failed > 0 && out.finished > 0);
    for source in [0, 1] {
        let opens = out
            .actions
            .iter()
            .filter(|action| **action == Action::Open { source });
        assert!(opens.count() >= 1);
    }
}

#[test]
fn a_source_that_crawls_is_replaced() {
    let servers = [Server::new(0.05, 0.1), Server::new(50.0, 0.01)];
    let out = run(&servers, 10, VECTOR, 2);
    assert!(out.seconds < 5.0, "{}", out.seconds);
}

#[test]
fn the_third_of_three_is_used_when_it_is_needed() {
    let mut servers = vec![
        Server::new(50.0, 0.01),
        Server::new(50.0, 0.01),
        Server::new(50.0, 0.01),
    ];
    let out = run(&servers, 60, VECTOR, 4);
    assert!(out.opened[2].is_nan());
    servers[1].dies = 2.0;
    let out = run(&servers, 60, VECTOR, 4);
    assert!(out.opened[2] < 3.0, "{}", out.opened[2]);
}

#[test]
fn probes_are_few() {
    let servers = [Server::new(100.0, 0.01), Server::new(2.0, 0.01)];
    let out = run(&servers, 150, VECTOR, 4);
    assert!(out.actions.contains(&Action::Slow { source: 1 }));
    assert!(out.sent[1] < 0.02 * out.sent[0], "{:?}", out.sent);
}

fn servers() -> impl Strategy<Value = Vec<Server>> {
    let times = || prop_oneof![Just(f64::MAX), 0.0..6.0f64];
    let server = (
        0.2..200.0f64,
        0.0..0.3f64,
        times(),
        0.5..8.0f64,
        times(),
        any::<bool>(),
    );
    let server = server.prop_map(|(rate, delay, silent, long, dies, tells)| Server {
        silent: silent..silent + long,
        dies,
        tells,
        ..Server::new(rate, delay)
    });
    prop::collection::vec(server, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is asserted for each piece is in `run`: it is read once.
    #[test]
    fn whatever_servers_do_every_read_ends(
        mut servers in servers(), n_calls in 1..12usize, size in 1..20_000_000u64, depth in 1..6usize, lives in any::<bool>(),
    ) {
        if lives {
            servers[0].dies = f64::MAX;
        }
        let out = run(&servers, n_calls, size, depth);
        if lives {
            prop_assert_eq!((out.finished, out.failed), (n_calls, 0));
        }
    }
}

#[test]
fn a_source_with_wrong_bytes_is_never_read_again() {
    let mut schedule = Schedule::new(2);
    for _ in 0..2 {
        let source = schedule.add(Duration::ZERO);
        schedule.opened(source, Duration::ZERO, None);
    }
    let call = schedule.submit(Duration::ZERO, vec![PIECE; 4]);
    let read = |schedule: &mut Schedule, now| {
        let actions = schedule.act(now).into_iter();
        let read = actions.filter_map(|action| match action {
            Action::Read { batch, source, .. } => Some((batch, source)),
            _ => None,
        });
        read.collect::<Vec<_>>()
    };
    let asked = read(&mut schedule, Duration::ZERO);
    let wrong = asked[0].1;
    schedule.disable(wrong, STEP, true);
    let (lost, kept): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(_, source)| *source == wrong);
    // what it had been asked for is not taken from it
    for (batch, _) in lost {
        assert_eq!(schedule.done(batch, STEP), None);
    }
    let again = read(&mut schedule, STEP);
    let mut pieces = 0;
    for (batch, source) in kept.into_iter().chain(again) {
        assert_ne!(source, wrong);
        let (of, fresh) = schedule.done(batch, STEP * 2).unwrap();
        assert_eq!(of, call);
        pieces += fresh.len();
    }
    assert_eq!(pieces, 4);
    assert_eq!(schedule.members[wrong].state, SourceState::Disabled);
}

#[test]
fn a_source_that_was_slow_makes_room_for_another() {
    let servers = [
        Server::new(100.0, 0.01),
        Server::new(2.0, 0.01),
        Server::new(100.0, 0.01),
    ];
    let out = run(&servers, 100, VECTOR, 4);
    assert!(out.sent[2] > 0.3 * out.sent[0], "{:?}", out.sent);
}

/// One read of a whole column went to the first source alone.
#[test]
fn one_large_read_is_shared() {
    let servers = [Server::new(10.0, 0.01), Server::new(10.0, 0.01)];
    let out = run(&servers, 1, 64 << 20, 1);
    let ratio = (64 << 20) as f64 / 20e6 / out.seconds;
    assert!(ratio > 0.85, "{ratio}");
    assert!(out.sent.iter().sum::<f64>() < 1.05 * (64 << 20) as f64);
}

#[test]
fn a_source_whose_others_are_away_gets_large_requests_as_they_are() {
    let mut servers = [Server::new(50.0, 0.01), Server::new(50.0, 0.01)];
    servers[1].dies = 0.0;
    // until that is known, some requests are smaller
    let out = run(&servers, 20, 64 << 20, 4);
    assert!(out.requests[0] <= 20 + 8, "{:?}", out.requests);
}
