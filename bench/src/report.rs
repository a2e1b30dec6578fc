//! The document and its pictures, made from results and from nothing else.

pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod words;

#[cfg(test)]
pub(crate) use page::example;
