//! What the engine does on a real machine: real interpreters, real pip, real files.

mod template;
