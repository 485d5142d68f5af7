"""Where a model will lie and how fast that can be: llama.cpp's rule, memory per device, ceilings."""
