//! The wire: requests in, replies out, as pure functions on bytes.
//!
//! ```text
//!  socket -> buffer of the session -> request::Parser -> ranges of the arguments -> command
//!  socket <- output::Output        <- reply::Reply    <- typed answers           <- command
//! ```
//!
//! A request is an array of bulk strings, or a line of words typed by hand (an inline request). The
//! parser never copies an argument: it gives ranges of the caller's buffer, which stay valid
//! however often that buffer is reallocated. Replies are appended to an [`output::Output`], a
//! vector of bytes with large strings woven in by reference.
//!
//! Invariants: the parser gives the same requests for the same bytes wherever they were cut, looks
//! at no byte twice and allocates in proportion to the bytes received, not to the lengths they
//! announce. Only `reply` knows RESP2 from RESP3.
//!
//! Not here: sockets and buffer sizes (`server`), what a request means (`command`).

pub mod error;
pub mod output;
pub mod reply;
pub mod request;
