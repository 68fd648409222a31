//! Publish and subscribe: who listens to which channel or pattern.
//!
//! Invariant: a session is in a channel's list iff the channel is in the session's set.

use std::collections::HashMap;

use super::Engine;
use super::session::SessionKey;
use crate::value::glob;

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

type Listeners = HashMap<Box<[u8]>, Vec<SessionKey>>;

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
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
        self.topics(topic).get(name).map_or(0, Vec::len)
    }
}

impl Engine {
    fn subscriptions_of(
        &mut self,
        key: SessionKey,
        topic: Topic,
    ) -> &mut std::collections::HashSet<Box<[u8]>> {
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
        self.pubsub
            .topics_mut(topic)
            .entry(name.into())
            .or_default()
            .push(key);
        true
    }

    /// Ends a subscription; false if there was none.
    pub fn unsubscribe(&mut self, key: SessionKey, topic: Topic, name: &[u8]) -> bool {
        if !self.subscriptions_of(key, topic).remove(name) {
            return false;
        }
        let topics = self.pubsub.topics_mut(topic);
        if let Some(listeners) = topics.get_mut(name) {
            listeners.retain(|&listener| listener != key);
            if listeners.is_empty() {
                topics.remove(name);
            }
        }
        true
    }

    /// Ends all subscriptions of a client, without telling it.
    pub fn unsubscribe_all(&mut self, key: SessionKey) {
        for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            let names: Vec<Box<[u8]>> = self.subscriptions_of(key, topic).iter().cloned().collect();
            for name in names {
                self.unsubscribe(key, topic, &name);
            }
        }
    }

    /// Sends a message to a channel's listeners and to those of matching patterns; how many got
    /// it.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let direct = self
            .pubsub
            .channels
            .get(channel)
            .cloned()
            .unwrap_or_default();
        for &listener in &direct {
            self.deliver(listener, &[b"message", channel, message]);
        }
        let matching: Vec<(Box<[u8]>, Vec<SessionKey>)> = self
            .pubsub
            .patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel, false))
            .map(|(pattern, listeners)| (pattern.clone(), listeners.clone()))
            .collect();
        let mut receivers = direct.len();
        for (pattern, listeners) in matching {
            receivers += listeners.len();
            for listener in listeners {
                self.deliver(listener, &[b"pmessage", &pattern, channel, message]);
            }
        }
        receivers
    }

    /// Sends a message to a shard channel's listeners; how many got it.
    pub fn publish_to_shard(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let listeners = self.pubsub.shards.get(channel).cloned().unwrap_or_default();
        for &listener in &listeners {
            self.deliver(listener, &[b"smessage", channel, message]);
        }
        listeners.len()
    }

    fn deliver(&mut self, key: SessionKey, parts: &[&[u8]]) {
        let mut reply = self.reply(key);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
    }
}
