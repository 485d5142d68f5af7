"""The only code that knows llama.cpp: builds, stand-in devices, servers, their logs and their answers."""
