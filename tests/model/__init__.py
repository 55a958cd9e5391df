"""The protocol of a lane as a model, and the checker that runs it through Spin."""
