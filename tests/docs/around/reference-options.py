# piece 1
assert send.settings()
