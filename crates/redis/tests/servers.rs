//! The client against real servers; skipped if there are none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use femtobarn_redis::{Address, Client, Commands, Options, RedisError, Reply, slot};
use femtobarn_testkit::{Servers, can_start_redis};

type Flow<'a> = femtobarn_redis::Flow<'a, RedisError>;

const KEYS: usize = 5000;

fn connect(port: u16) -> Client {
    let seed = Address::parse(&format!("127.0.0.1:{port}")).unwrap();
    let options = Options {
        failover: Duration::from_secs(10),
        ..Options::new(format!("redis://{seed}/"), vec![seed])
    };
    Client::connect(options, Arc::new(())).unwrap()
}

/// Writes and reads many keys, with this number of replicas.
fn round(client: &Client, replicas: usize) {
    let keys: Vec<_> = (0..KEYS).map(|n| n.to_string()).collect();
    let mut writing = Commands::default();
    for key in &keys {
        writing.command(slot(key.as_bytes()), &[b"SET", key.as_bytes(), b"0"]);
        writing.command(
            slot(key.as_bytes()),
            &[b"INCRBY", key.as_bytes(), key.as_bytes()],
        );
    }
    let mut flow = Flow::new(client);
    flow.run("write", &writing, true, &mut |at, reply| {
        if at % 2 == 1 {
            assert_eq!(reply, Reply::Number((at / 2).try_into().unwrap()));
        }
        Ok(())
    })
    .unwrap();
    if replicas > 0 {
        assert_eq!(flow.wait_for_replicas(replicas).unwrap(), Some(replicas));
    }
    let mut reading = Commands::default();
    for key in &keys {
        reading.begin(slot(key.as_bytes()), 2);
        reading.arg(b"GET").arg(key.as_bytes());
        reading.brings(key.len());
    }
    let mut found = vec![0; KEYS];
    flow.run("read", &reading, false, &mut |at, reply| {
        assert_eq!(reply.bytes(), Some(keys[at].as_bytes()));
        found[at] += 1;
        Ok(())
    })
    .unwrap();
    assert!(found.iter().all(|n| *n == 1));
    assert!(!flow.has_lost && !flow.has_repeated);
}

#[test]
fn one_server_answers_every_command_once() {
    if !can_start_redis() {
        return;
    }
    let servers = Servers::start("redis");
    let client = connect(servers.port);
    assert_eq!(client.topology().masters.len(), 1);
    assert_eq!(client.topology().a_slot_of_each(), [0]);
    round(&client, 0);
    let mut wrong = Commands::default();
    wrong.command(slot(b"1"), &[b"HGET", b"1", b"a"]);
    let run = Flow::new(&client).run("look", &wrong, false, &mut |_, _| Ok(()));
    let RedisError::Refused { said, .. } = run.unwrap_err() else {
        panic!("it was not refused");
    };
    assert!(said.starts_with("WRONGTYPE"), "{said}");
}

#[test]
fn all_servers_of_a_cluster_answer_for_their_slots() {
    if !can_start_redis() {
        return;
    }
    let servers = Servers::start("redis-cluster");
    let client = connect(servers.servers[4]);
    let topology = client.topology();
    assert_eq!(topology.masters.len(), 3);
    let slots = topology.a_slot_of_each();
    let masters: Vec<_> = slots
        .iter()
        .map(|slot| topology.master(*slot).unwrap())
        .collect();
    assert!(masters.into_iter().eq(&topology.masters));
    round(&client, 1);
}
