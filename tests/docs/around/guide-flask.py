import sys
import types


def shop() -> None:
    # piece 1
    assert flask.test_client().post("/sign-up/ann").json == {"job": "welcome-ann", "status": "queued"}
    assert jobs.sync(jobs.worker().run(burst=True)).completed == 1
    sys.modules["jobs"], sys.modules["shop"] = types.ModuleType("jobs"), types.ModuleType("shop")
    sys.modules["jobs"].jobs, sys.modules["shop"].create_app = jobs, lambda: flask


shop()
# piece 2
assert application.name == "shop"
