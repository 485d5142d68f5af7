"""What a model's header says: tensors by role, geometry, and the bytes that a forward pass reads."""
