//! The libraries that Redis adds to Lua, written anew: the same names, bytes and messages.
//!
//! Each file registers the functions of one library in a table. They read their arguments and
//! walk tables without metamethods, so none of them calls back into a script.

pub(super) mod bit;
pub(super) mod cjson;
pub(super) mod cmsgpack;
pub(super) mod packing;
