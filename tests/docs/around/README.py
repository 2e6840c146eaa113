from holdfast import Holdfast

app = Holdfast("memory://")


@app.task()
async def send(to: str) -> None: ...


# piece 1
assert handle.status == "queued"
