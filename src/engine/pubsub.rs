//! Publish and subscribe: who listens to which channel or pattern.
//!
//! A message is put into bytes once, whatever the number of its listeners, and a long one is held
//! by all of them together. Nothing is done, not even matching of patterns, when nobody listens.
//!
//! Invariants: a session is among a topic's listeners iff the topic is in the session's set. There
//! is a plan for each pattern that somebody listens to, and no other.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Engine;
use super::session::{Closing, SessionKey};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply, SHARED_BYTES_MIN};
use crate::value::glob::Plan;
use crate::value::size_class;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel's name.
    Channel,
    /// A glob pattern over channel names.
    Pattern,
    /// A shard channel's name.
    Shard,
}

/// Topics with their listeners. Ordered, so that a run can be repeated; listeners are in a tree,
/// so that thousands can leave one channel in one turn.
pub type Listeners = BTreeMap<Box<[u8]>, BTreeSet<SessionKey>>;

/// What a subscription takes besides the topic's name, in bytes: a place in the client's tree and
/// in that of all topics, and a tree of listeners. What others share in counts for each of them.
const SUBSCRIPTION_BYTES: usize = 208;
/// The same of the plan of a pattern: its place in a tree, and a long segment.
const PLAN_BYTES: usize = 180;

/// What a subscription takes of memory, in bytes, about.
fn subscription_bytes(topic: Topic, name: &[u8]) -> usize {
    let name_bytes = size_class::of(name.len());
    match topic {
        Topic::Pattern => SUBSCRIPTION_BYTES + PLAN_BYTES + 3 * name_bytes,
        Topic::Channel | Topic::Shard => SUBSCRIPTION_BYTES + 2 * name_bytes,
    }
}

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
    /// How to match each of the patterns, in their order.
    plans: BTreeMap<Box<[u8]>, Plan>,
}

impl PubSub {
    /// Topics of a kind with their listeners.
    pub fn topics(&self, topic: Topic) -> &Listeners {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shards,
        }
    }

    fn topics_mut(&mut self, topic: Topic) -> &mut Listeners {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shards,
        }
    }

    /// Number of listeners of one topic.
    pub fn listeners(&self, topic: Topic, name: &[u8]) -> usize {
        self.topics(topic).get(name).map_or(0, BTreeSet::len)
    }

    /// Whether nobody can get any message that is not published to a shard.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty()
    }
}

/// A push without its first bytes, which depend on the protocol.
struct Message {
    parts: usize,
    body: Bytes,
}

impl Message {
    fn new(parts: &[&[u8]]) -> Message {
        let mut body = Output::default();
        // Strings are written alike in both versions of the protocol.
        let mut reply = Reply::new(&mut body, Protocol::Resp2);
        parts.iter().for_each(|part| reply.bulk(part));
        Message {
            parts: parts.len(),
            body: Bytes::from(body.take_all()),
        }
    }
}

impl Engine {
    fn subscriptions_of(&mut self, key: SessionKey, topic: Topic) -> &mut BTreeSet<Box<[u8]>> {
        let session = &mut self.sessions[key];
        match topic {
            Topic::Channel => &mut session.channels,
            Topic::Pattern => &mut session.patterns,
            Topic::Shard => &mut session.shard_channels,
        }
    }

    /// Subscribes a client; false if it was already.
    pub fn subscribe(&mut self, key: SessionKey, topic: Topic, name: &[u8]) -> bool {
        if !self.subscriptions_of(key, topic).insert(name.into()) {
            return false;
        }
        self.sessions[key].subscribed_bytes += subscription_bytes(topic, name);
        let topics = self.pubsub.topics_mut(topic);
        let listeners = topics.entry(name.into()).or_default();
        let is_new = listeners.is_empty();
        listeners.insert(key);
        self.limit_output(key);
        if is_new && topic == Topic::Pattern {
            let plan = Plan::of(name, false);
            self.pubsub.plans.insert(name.into(), plan);
        }
        true
    }

    /// Ends a subscription; false if there was none.
    pub fn unsubscribe(&mut self, key: SessionKey, topic: Topic, name: &[u8]) -> bool {
        if !self.subscriptions_of(key, topic).remove(name) {
            return false;
        }
        self.sessions[key].subscribed_bytes -= subscription_bytes(topic, name);
        self.limit_output(key);
        let topics = self.pubsub.topics_mut(topic);
        if let Some(listeners) = topics.get_mut(name) {
            listeners.remove(&key);
            if listeners.is_empty() {
                topics.remove(name);
                if topic == Topic::Pattern {
                    self.pubsub.plans.remove(name);
                }
            }
        }
        true
    }

    /// What a client listens to, in order.
    pub fn subscribed(&mut self, key: SessionKey, topic: Topic) -> Vec<Box<[u8]>> {
        self.subscriptions_of(key, topic).iter().cloned().collect()
    }

    /// Ends all subscriptions of a client, without telling it.
    pub fn unsubscribe_all(&mut self, key: SessionKey) {
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            for name in self.subscribed(key, topic) {
                self.unsubscribe(key, topic, &name);
            }
        }
    }

    /// Sends a message to a channel's listeners and to those of matching patterns; how many got
    /// it.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        if self.pubsub.is_silent() {
            return 0;
        }
        // Delivering touches sessions only; the topics are put back before anybody looks.
        let pubsub = std::mem::take(&mut self.pubsub);
        let mut receivers = 0;
        if let Some(listeners) = pubsub.channels.get(channel) {
            receivers += self.deliver(listeners, &[b"message", channel, message]);
        }
        for ((pattern, listeners), plan) in pubsub.patterns.iter().zip(pubsub.plans.values()) {
            if plan.matches(pattern, channel) {
                receivers += self.deliver(listeners, &[b"pmessage", pattern, channel, message]);
            }
        }
        self.pubsub = pubsub;
        receivers
    }

    /// Sends a message to a shard channel's listeners; how many got it.
    pub fn publish_to_shard(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let pubsub = std::mem::take(&mut self.pubsub);
        let receivers = pubsub.shards.get(channel).map_or(0, |listeners| {
            self.deliver(listeners, &[b"smessage", channel, message])
        });
        self.pubsub = pubsub;
        receivers
    }

    fn deliver(&mut self, listeners: &BTreeSet<SessionKey>, parts: &[&[u8]]) -> usize {
        let message = Message::new(parts);
        for &listener in listeners {
            if self.sessions[listener].closing != Closing::No {
                continue;
            }
            let mut reply = self.reply(listener);
            reply.push(message.parts);
            if message.body.len() < SHARED_BYTES_MIN {
                reply.output().extend(&message.body);
            } else {
                reply.output().push_shared(message.body.clone());
            }
            self.count_client(listener);
        }
        listeners.len()
    }
}
