//! The log of effects: what must be done elsewhere to have there what is here.
//!
//! A change of data leaves one or a few effects, whoever made it: a command, the expiry of a key or
//! a field, a flush, an exchange of databases. An effect is a command with its arguments, and means
//! the same whenever and wherever it is carried out: deadlines are moments, expiry is a deletion,
//! and what was drawn at random is named. A keyspace that gets them in order, and removes nothing
//! by itself, holds what this one holds, dead keys that are still here included.
//!
//! Effects are not [`super::change`]: a change tells somebody about a key, and there may be several
//! or none; effects are complete, and of no use to people. Nothing is written while nobody has
//! asked for them. A command's effect is the command itself, which `command::dispatch` sees to, but
//! for those whose row says that they leave their own.
//!
//! Invariant: what a command was not shown because it is due is deleted by an effect before that of
//! the command.

/// Elements that one effect adds to a collection, where it is made of what is there.
pub const ITEMS_PER_EFFECT: usize = 1024;

/// One effect: in which database, and how many arguments.
#[derive(Clone, Copy)]
struct Effect {
    db: u16,
    args: u32,
}

/// The effects since they were last taken, arguments one after another in one buffer.
#[derive(Default)]
pub struct Effects {
    is_heard: bool,
    is_muted: bool,
    list: Vec<Effect>,
    lens: Vec<u32>,
    bytes: Vec<u8>,
}

impl Effects {
    /// Sets whether effects are recorded. Whoever asks for it takes them, or they pile up.
    pub fn listen(&mut self, is_heard: bool) {
        self.is_heard = is_heard;
        self.clear();
    }

    /// Whether they are recorded.
    #[inline(always)]
    pub fn are_heard(&self) -> bool {
        self.is_heard && !self.is_muted
    }

    /// Leaves out what follows, or no more of it: a script may ask for that.
    pub fn mute(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Records a command that has this effect in a database.
    #[inline]
    pub fn record<'a>(&mut self, db: usize, args: impl IntoIterator<Item = &'a [u8]>) {
        if self.are_heard() {
            self.write(db, args);
        }
    }

    fn write<'a>(&mut self, db: usize, args: impl IntoIterator<Item = &'a [u8]>) {
        let first = self.lens.len();
        for arg in args {
            self.lens.push(arg.len() as u32);
            self.bytes.extend_from_slice(arg);
        }
        self.list.push(Effect {
            db: db as u16,
            args: (self.lens.len() - first) as u32,
        });
    }

    /// Records that a key is no more.
    #[inline]
    pub fn delete(&mut self, db: usize, key: &[u8]) {
        self.record(db, [b"DEL".as_slice(), key]);
    }

    /// The recorded effects, in order: the number of the database, and the command.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Vec<&[u8]>)> {
        let mut lens = self.lens.iter();
        let mut rest = self.bytes.as_slice();
        self.list.iter().map(move |effect| {
            let lens = lens.by_ref().take(effect.args as usize);
            let args = lens.map(|&len| {
                let (arg, others) = rest.split_at(len as usize);
                rest = others;
                arg
            });
            (usize::from(effect.db), args.collect())
        })
    }

    /// Forgets the recorded effects.
    pub fn clear(&mut self) {
        self.list.clear();
        self.lens.clear();
        self.bytes.clear();
    }
}
