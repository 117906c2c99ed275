//! Pipes and queues: packets wait here, so that they leave in the shape that was asked for.
