//! One client's socket: reading into the engine, writing what the engine owes it.
//!
//! mio reports an edge once, so a connection remembers that there may be more to read. A read that
//! filled less than the buffer has emptied the socket, unless the peer has closed its side: then
//! the end must still be read.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::resp::output::Output;

/// Bytes read from one client in one turn.
pub const READ_MAX: usize = 64 * 1024;
/// Bytes written to one client in one turn, at least; a fast reader of large values gives way.
const WRITE_MAX: usize = 4 * 1024 * 1024;

/// A stream of either kind.
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix socket.
    Unix(UnixStream),
}

impl Stream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
        }
    }
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes, in the buffer.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer has closed, or the connection is broken.
    End,
}

/// A client's connection.
pub struct Connection {
    stream: Stream,
    /// There may be something to read.
    pub is_readable: bool,
    /// The peer has closed its side: read until the end.
    pub is_read_closed: bool,
    /// The socket took no more: an event will tell when it does.
    pub is_full: bool,
    /// Is on the loop's list of connections to read.
    pub is_listed: bool,
}

impl Connection {
    /// Registers a stream; edges of both directions are reported from now on.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(mut stream: Stream, registry: &Registry, token: Token) -> io::Result<Connection> {
        registry.register(
            stream.source(),
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        Ok(Connection {
            stream,
            is_readable: false,
            is_read_closed: false,
            is_full: false,
            is_listed: false,
        })
    }

    /// Takes the stream out of the poll; dropping the connection closes it.
    pub fn deregister(&mut self, registry: &Registry) {
        // The stream is closed right after this, which takes it out of the poll in any case.
        let _ = registry.deregister(self.stream.source());
    }

    /// Tells the peer that nothing more will be written.
    pub fn finish(&self) {
        // If it fails the peer has left.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// Reads once.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Received::End,
                Ok(n) => {
                    self.is_readable = n == buffer.len() || self.is_read_closed;
                    return Received::Bytes(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Received::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Received::End,
            }
        }
    }

    /// Writes as much as the socket takes, up to a quota; how much it was.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, output: &mut Output) -> io::Result<usize> {
        let mut sent = 0;
        while !output.is_empty() && !self.is_full && sent < WRITE_MAX {
            let front = output.front();
            let result = if front.len() == output.len() {
                self.stream.write(front)
            } else {
                let mut slices = Vec::new();
                output.slices(&mut slices);
                self.stream.write_vectored(&slices)
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    sent += n;
                    output.advance(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_full = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
