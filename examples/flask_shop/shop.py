"""A shop with Flask and an application factory.

flask --app shop run --debug
flask --app shop holdfast worker       # or, for several processes: holdfast worker wsgi:jobs --processes 4
flask --app shop holdfast jobs
"""

from typing import Any

from flask import Flask, Response, jsonify, request
from jobs import confirm, holdfast, jobs, quote

from holdfast import JobMissing


def create_app(**config: Any) -> Flask:
    flask = Flask("shop")
    flask.config.from_mapping({"SENDER": "shop@example.com", "CENTS": 100, **config})
    holdfast.init_app(flask)
    flask.add_url_rule("/orders", view_func=take, methods=["POST"])
    flask.add_url_rule("/orders/<int:number>", view_func=look)
    flask.add_url_rule("/quotes/<item>", view_func=price)
    return flask


def take() -> tuple[Response, int]:
    """Answer at once. The number of the order is the job's id: a second request sends no second mail."""
    order = request.get_json()
    once = confirm.options(job_id=str(order["number"]))
    handle = jobs.sync(once.enqueue(order["number"], order["to"]))
    return jsonify(job=handle.id, status=handle.status), 202


def look(number: int) -> tuple[Response, int]:
    try:
        record = jobs.sync(confirm.status(str(number)))
    except JobMissing as error:
        return jsonify(error=str(error)), 404
    return jsonify(state=record.state), 200


def price(item: str) -> Response:
    """Wait for the worker's answer, within the request."""
    return jsonify(cents=jobs.sync(quote.call_within(10, item, 1)))
