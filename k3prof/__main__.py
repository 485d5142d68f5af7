"""`python -m k3prof` is the `k3prof` command."""

from k3prof.cli.main import main

main()
