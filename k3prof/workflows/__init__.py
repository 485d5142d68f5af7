"""Where servers, collectors, the store and the reporters meet."""
