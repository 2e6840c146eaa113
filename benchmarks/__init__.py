"""How fast Holdfast is, beside its peers and beside the bare store, in one run on one machine."""
