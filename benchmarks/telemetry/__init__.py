"""What observing costs: job lines and counts, traces, and the code for them where all of it is off."""
