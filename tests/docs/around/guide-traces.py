# piece 1
traces.configure()
