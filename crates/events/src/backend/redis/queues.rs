//! Queues between programs: each is one hash, which scripts change atomically.
//!
//! There is one key, because a script with several keys could not run while its slot moves. Its fields are: `m` creator,
//! `t` number of the last value, `h` number of the last popped value, `v` and a number: a value, `p` the producers with
//! the ends of their leases, `s` and a lane: its last push or return, `g` and a lane: the last value that it popped.
//!
//! A lane is used by one thread at a time, for one push or pop after another, each with a number. If a command has no
//! answer, it is sent again with the same number, and gets the same answer. So nothing is pushed twice, and no popped
//! value is lost.
//!
//! A full server refuses pushes, but accepts all other operations: their scripts first delete something, and a server
//! does not stop a script that has written when memory runs out.

use std::thread;
use std::time::{Duration, Instant};

use femtobarn_redis::{Commands, Reply};

use super::keys::Tagged;
use super::{Flow, RedisBackend};
use crate::forked::lock;
use crate::{EventsError, Popped, Queues, Uuid};

/// Interval for polling an empty queue.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

const PUSH: &str = "if redis.call('HEXISTS',KEYS[1],'m')==0 then return 0 end
local s='s'..ARGV[1]
if redis.call('HGET',KEYS[1],s)==ARGV[2] then return 1 end
local n=redis.call('HINCRBY',KEYS[1],'t',1)
redis.call('HSET',KEYS[1],'v'..n,ARGV[3],s,ARGV[2])
return 1";

const PUT_BACK: &str = "local s='s'..ARGV[1]
if redis.call('HGET',KEYS[1],s)==ARGV[2] then return 1 end
local h=tonumber(redis.call('HGET',KEYS[1],'h') or 0)
if h<1 then return 0 end
redis.call('HDEL',KEYS[1],s)
redis.call('HSET',KEYS[1],'v'..h,ARGV[3],'h',h-1,s,ARGV[2])
return 1";

const POP: &str = "if redis.call('HEXISTS',KEYS[1],'m')==0 then return -1 end
local g,id='g'..ARGV[1],ARGV[2]..':'
local given=redis.call('HGET',KEYS[1],g)
if given and string.sub(given,1,#id)==id then return string.sub(given,#id+1) end
local at=redis.call('HMGET',KEYS[1],'h','t','p')
local h,t=tonumber(at[1] or 0),tonumber(at[2] or 0)
if h<t then
  h=h+1
  local v=redis.call('HGET',KEYS[1],'v'..h)
  redis.call('HDEL',KEYS[1],'v'..h)
  redis.call('HSET',KEYS[1],'h',h,g,id..(v or ''))
  return v
end
if at[3] then
  local time=redis.call('TIME')
  local now=time[1]*1000+math.floor(time[2]/1000)
  for _,till in pairs(cmsgpack.unpack(at[3])) do if till>now then return -2 end end
end
return -3";

const PRODUCE: &str = "if redis.call('HEXISTS',KEYS[1],'m')==0 then return 0 end
local time=redis.call('TIME')
local now=time[1]*1000+math.floor(time[2]/1000)
local p,all=redis.call('HGET',KEYS[1],'p'),{}
if p then for id,till in pairs(cmsgpack.unpack(p)) do if till>now then all[id]=till end end end
local lease=tonumber(ARGV[2])
if lease>0 then all[ARGV[1]]=now+lease else all[ARGV[1]]=nil end
redis.call('HDEL',KEYS[1],'p')
redis.call('HSET',KEYS[1],'p',cmsgpack.pack(all))
return 1";

/// The sequence of queue operations of one thread at a time.
#[derive(Debug)]
pub struct Lane {
    id: String,
    number: u64,
}

impl RedisBackend {
    fn queue_key(&self, queue: &str) -> (Vec<u8>, u16) {
        let tagged = Tagged::queue(&self.prefix, queue);
        (tagged.key("q"), tagged.slot)
    }

    /// Returns an unused lane. A forked process must not use the lanes of its parent.
    fn lane(&self) -> Lane {
        let mut lanes = lock(&self.lanes);
        let process = std::process::id();
        if lanes.0 != process {
            *lanes = (process, 0, Vec::new());
        }
        let mut lane = lanes.2.pop().unwrap_or_else(|| {
            lanes.1 += 1;
            Lane {
                id: format!("{}-{process}-{}", self.producer, lanes.1),
                number: 0,
            }
        });
        lane.number += 1;
        lane
    }

    fn keep_lane(&self, lane: Lane) {
        let mut lanes = lock(&self.lanes);
        if lanes.0 == std::process::id() {
            lanes.2.push(lane);
        }
    }

    /// Runs a script on a queue and waits until enough replicas have its effect.
    fn script<T>(
        &self,
        doing: &str,
        queue: &str,
        (script, args): (&str, &[&[u8]]),
        take: impl Fn(Reply<'_>) -> Result<T, EventsError>,
    ) -> Result<T, EventsError> {
        let (key, slot) = self.queue_key(queue);
        let mut commands = Commands::default();
        commands.begin(slot, 4 + args.len());
        commands
            .arg(b"EVAL")
            .arg(script.as_bytes())
            .arg(b"1")
            .arg(&key);
        for arg in args {
            commands.arg(arg);
        }
        self.surely(doing, &commands, &mut |reply| take(reply))
    }

    fn lease(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError> {
        let (id, millis) = (producer.to_string(), lease.as_millis().to_string());
        let args = [id.as_bytes(), millis.as_bytes()];
        self.script("open a queue", queue, (PRODUCE, &args), |reply| {
            self.truth("open a queue", reply)
        })
    }

    fn add(
        &self,
        doing: &str,
        script: &str,
        queue: &str,
        value: &[u8],
    ) -> Result<bool, EventsError> {
        let lane = self.lane();
        let number = lane.number.to_string();
        let args = [lane.id.as_bytes(), number.as_bytes(), value];
        let added = self.script(doing, queue, (script, &args), |reply| {
            self.truth(doing, reply)
        });
        self.keep_lane(lane);
        added
    }

    fn take(&self, queue: &str, lane: &Lane) -> Result<Popped, EventsError> {
        const DOING: &str = "take from a queue";
        let number = lane.number.to_string();
        let args = [lane.id.as_bytes(), number.as_bytes()];
        self.script(DOING, queue, (POP, &args), |reply| match reply {
            Reply::Value(Some(value)) => Ok(Popped::Value(value.to_vec())),
            Reply::Number(-1) => Ok(Popped::NoQueue),
            Reply::Number(-2) => Ok(Popped::Nothing),
            Reply::Number(-3) => Ok(Popped::Ended),
            reply => Err(self.nonsense(DOING, reply)),
        })
    }
}

impl Queues for RedisBackend {
    fn create(&self, queue: &str) -> Result<bool, EventsError> {
        let (key, slot) = self.queue_key(queue);
        let lane = self.lane();
        let token = format!("{}:{}", lane.id, lane.number);
        self.keep_lane(lane);
        let mut commands = Commands::default();
        commands.command(slot, &[b"HSETNX", &key, b"m", token.as_bytes()]);
        commands.command(slot, &[b"HGET", &key, b"m"]);
        self.surely("create a queue", &commands, &mut |reply| {
            Ok(reply.bytes() == Some(token.as_bytes()))
        })
    }

    fn destroy(&self, queue: &str) -> Result<bool, EventsError> {
        let (key, slot) = self.queue_key(queue);
        let mut commands = Commands::default();
        commands.command(slot, &[b"UNLINK", &key]);
        let mut was_there = false;
        let mut flow = Flow::new(&self.client);
        flow.run("destroy a queue", &commands, true, &mut |_, reply| {
            was_there |= reply == Reply::Number(1);
            Ok(())
        })?;
        Ok(was_there || flow.has_repeated)
    }

    fn produce(&self, queue: &str, producer: Uuid, lease: Duration) -> Result<bool, EventsError> {
        self.lease(queue, producer, lease.max(Duration::from_millis(1)))
    }

    fn end_producing(&self, queue: &str, producer: Uuid) -> Result<(), EventsError> {
        self.lease(queue, producer, Duration::ZERO).map(drop)
    }

    fn push(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        self.add("push to a queue", PUSH, queue, value)
    }

    fn put_back(&self, queue: &str, value: &[u8]) -> Result<bool, EventsError> {
        self.add("return a value to a queue", PUT_BACK, queue, value)
    }

    fn pop(&self, queue: &str, patience: Duration) -> Result<Popped, EventsError> {
        let until = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let lane = self.lane();
            let popped = self.take(queue, &lane);
            self.keep_lane(lane);
            let left = until.saturating_duration_since(Instant::now());
            match popped {
                Ok(Popped::Nothing) if !left.is_zero() => {
                    thread::sleep(pause.min(left));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                popped => return popped,
            }
        }
    }

    fn n_values(&self, queue: &str) -> Result<Option<u64>, EventsError> {
        const DOING: &str = "count the values of a queue";
        let (key, slot) = self.queue_key(queue);
        let mut commands = Commands::default();
        commands.command(slot, &[b"HMGET", &key, b"m", b"h", b"t"]);
        let mut n = None;
        let mut flow = Flow::new(&self.client);
        flow.run(DOING, &commands, false, &mut |_, reply| {
            let mut fields = reply.elements().into_iter().flatten().map(Reply::bytes);
            if fields.next().flatten().is_none() {
                return Ok(());
            }
            let mut number = || {
                let text = fields.next().flatten().unwrap_or(b"0");
                std::str::from_utf8(text).ok()?.parse::<u64>().ok()
            };
            let (taken, pushed) = (number(), number());
            let left = taken
                .zip(pushed)
                .map(|(taken, pushed)| pushed.checked_sub(taken));
            n = Some(left.flatten().ok_or_else(|| self.nonsense(DOING, reply))?);
            Ok(())
        })?;
        Ok(n)
    }
}
