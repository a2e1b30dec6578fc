//! The check as a whole: texts made to break it, labelled texts, and a thousand generated ones.

mod generated;
mod hostile;
mod sets;
