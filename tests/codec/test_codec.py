"""What goes into a payload comes back as it was, or is refused with its path."""

import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
import subprocess
import sys
import typing
import uuid
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as pydantic_dataclass

from holdfast.codec import Codec, JsonCodec, MsgpackCodec, Signature, codec
from holdfast.errors import ConfigError, PayloadError

JSON, MSGPACK = codec("json"), codec("msgpack")
BOTH = pytest.mark.parametrize("made", [JSON, MSGPACK], ids=lambda made: made.name)
NOW = dt.datetime(2024, 5, 17, 12, 30, 15, 123456, tzinfo=dt.UTC)
T = typing.TypeVar("T")


class Job(typing.Generic[T]):
    """Stands in for the framework's class."""


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    pass


@dataclasses.dataclass
class Line:
    sku: str
    when: dt.datetime | None = None
    price: float = 1.0
    data: typing.Any = None


class Plain:
    pass


@dataclasses.dataclass
class Order:
    id: int
    items: list[Line] = dataclasses.field(default_factory=list)


class SpecialOrder(Order):
    pass


@dataclasses.dataclass(eq=False)
class Incomparable:
    id: int
    note: str = dataclasses.field(default="", compare=False)


class Point(msgspec.Struct):
    x: int
    tags: set[str] = set()


class Node(msgspec.Struct):
    child: "Node | None" = None


class Empty(msgspec.Struct, eq=False):
    pass


class User(pydantic.BaseModel):
    name: str
    born: dt.date | None = None
    weight: float = 1.0
    data: typing.Any = None


class Strict(pydantic.BaseModel, strict=True):
    at: dt.datetime
    nick: str = pydantic.Field(alias="nickName")


class Guarded(pydantic.BaseModel):
    password: pydantic.SecretStr


@pydantic_dataclass
class Account:
    number: int
    limit: int = pydantic.Field(default=3)


class Address(typing.TypedDict):
    city: str
    since: typing.NotRequired[dt.date]


class Pair(typing.NamedTuple):
    left: int
    right: typing.Any


def refused(made: Codec, value: object, type: object = typing.Any, path: str = "payload") -> str:
    """The message with which a codec refuses a value, which starts with its path."""
    with pytest.raises(PayloadError) as caught:
        made.encode(value, type, path=path)
    assert str(caught.value).startswith(caught.value.path)
    return str(caught.value)


def round_trip(made: Codec, value: object, type: object = typing.Any) -> object:
    return made.decode(made.encode(value, type), type)


def exactly(one: object, other: object) -> bool:
    """Equality that tells 1 from True and 1.0, at any depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        assert isinstance(other, dict)
        return exactly(list(one), list(other)) and exactly(list(one.values()), list(other.values()))
    if isinstance(one, list):
        assert isinstance(other, list)
        return len(one) == len(other) and all(map(exactly, one, other))
    return one == other


def nested(levels: int) -> list[typing.Any]:
    value: list[typing.Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


# Choosing a codec


def test_a_codec_is_chosen_by_name_or_brought_along():
    class Own:
        name = "own"

        def encode(self, value, type=typing.Any, *, path="payload"):
            return b""

        def decode(self, data, type=typing.Any):
            return None

    own = Own()
    assert isinstance(codec("json"), JsonCodec)
    assert isinstance(codec("msgpack"), MsgpackCodec)
    assert codec(own) is own
    assert (JSON.name, MSGPACK.name) == ("json", "msgpack")


@pytest.mark.parametrize("choice", ["pickle", None, 3, JsonCodec, object()])
def test_anything_else_is_not_a_codec(choice):
    with pytest.raises(ConfigError) as caught:
        codec(choice)
    assert str(caught.value) == (
        f'{choice!r} is not a codec: use "json", "msgpack" or an object with name, encode() and decode()'
    )


def test_pydantic_is_left_alone_until_a_model_comes():
    source = "import sys, holdfast.codec; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


# Plain values

plain_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
plain_values = st.recursive(
    plain_scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
odd_scalars = (
    plain_scalars
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Lu"]))
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.uuids()
    | st.sampled_from([Colour.RED, Level.LOW, Text("text"), (1, 2), frozenset({1}), object()])
)
odd_values = st.recursive(
    odd_scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.sampled_from([Text("k"), Level.LOW]), inner)
    ),
    max_leaves=8,
)


@BOTH
@given(value=plain_values)
def test_every_plain_value_comes_back_with_its_types(made, value):
    assert exactly(round_trip(made, value), value)


@BOTH
@given(value=odd_values)
def test_any_value_comes_back_the_same_or_is_refused(made, value):
    with contextlib.suppress(PayloadError):
        assert exactly(round_trip(made, value), value)


@BOTH
@given(value=odd_values)
def test_any_inside_a_rich_type_is_as_strict(made, value):
    with contextlib.suppress(PayloadError):
        assert exactly(round_trip(made, Pair(1, value), Pair).right, value)


def test_the_path_leads_to_the_bad_value():
    value = {"items": [1, 2, {"when": NOW}]}
    assert refused(JSON, value) == (
        "payload.items[2].when is a datetime, which JSON cannot carry as it is: "
        "annotate the parameter as datetime, or pass a string"
    )
    with pytest.raises(PayloadError) as caught:
        JSON.encode(value)
    assert caught.value.path == "payload.items[2].when"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"odd key": {1}}, 'payload["odd key"] '),
        ({'a"b': {1}}, 'payload["a\\"b"] '),
        ({"": {1}}, 'payload[""] '),
        ({"été": {1}}, "payload.été "),
        ([[{1}]], "payload[0][0] "),
    ],
)
def test_keys_that_are_no_identifiers_are_quoted_in_a_path(value, path):
    assert refused(JSON, value).startswith(path)


@BOTH
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1}, "is a set, which {} cannot carry as it is: annotate the parameter as set, or pass a list"),
        ((1,), "is a tuple, which {} cannot carry as it is: annotate the parameter as tuple, or pass a list"),
        (NOW, "is a datetime, which {} cannot carry as it is: annotate the parameter as datetime, or pass a string"),
        (
            decimal.Decimal(1),
            "is a Decimal, which {} cannot carry as it is: annotate the parameter as Decimal, or pass a string",
        ),
        (
            uuid.UUID(int=1),
            "is a UUID, which {} cannot carry as it is: annotate the parameter as UUID, or pass a string",
        ),
        (
            Colour.RED,
            "is a Colour, which {} cannot carry as it is: annotate the parameter as Colour, or pass its value",
        ),
        (Level.LOW, "is a Level, which {} cannot carry as it is: annotate the parameter as Level, or pass its value"),
        (Order(1), "is an Order, which {} cannot carry as it is: annotate the parameter as Order, or pass a dict"),
        (Plain(), "is a Plain, which {} cannot carry as it is: pass plain values"),
        (object(), "is an object, which {} cannot carry as it is: pass plain values"),
        (Text("a"), "is a Text, which {} cannot carry as it is: pass a plain str"),
        (collections.OrderedDict(a=1), "is an OrderedDict, which {} cannot carry as it is: pass a dict"),
        (math.nan, "is nan, which {} cannot carry as it is: pass None or a string"),
        (2**64, "is an int outside 64 bits, which {} cannot carry as it is: pass a string"),
        (-(2**63) - 1, "is an int outside 64 bits, which {} cannot carry as it is: pass a string"),
        ("\ud800", "has a lone surrogate, which UTF-8 cannot carry: remove it, or pass bytes as base64 text"),
        ({"\ud800": 1}, "has the key '\\ud800' with a lone surrogate, which UTF-8 cannot carry: rename the key"),
        (
            {1: 2},
            "has the key 1, an int, and keys must be str here: "
            "use str keys, or annotate the parameter as dict[int, ...]",
        ),
        ({None: 2}, "has the key None, None, and keys must be str here: use plain str keys"),
        ({Text("k"): 2}, "has the key 'k', a Text, and keys must be str here: use plain str keys"),
        (nested(65), "is nested deeper than 64 levels: flatten it, or pass it as text"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_what_would_change_is_refused_with_advice(made, value, says):
    says = says.format(made.title)
    assert refused(made, value) == f"payload {says}"
    assert refused(made, {"a": [value]}) == f"payload.a[0] {says}"


@BOTH
def test_sixty_four_levels_are_not_too_deep(made):
    assert round_trip(made, nested(64)) == nested(64)
    assert refused(made, {"a": nested(65)}).startswith("payload.a is nested")


@BOTH
def test_a_cycle_is_named(made):
    value: list[typing.Any] = [1]
    value.append({"self": value})
    assert refused(made, value) == "payload[1].self contains itself: pass a value without cycles"


def test_only_messagepack_carries_bytes_and_infinities():
    for value in (b"\xff", math.inf, -math.inf):
        assert exactly(round_trip(MSGPACK, [value]), [value])
    assert refused(JSON, b"x") == (
        "payload is bytes, which JSON cannot carry as it is: annotate the parameter as bytes, or pass a string"
    )
    assert refused(JSON, [math.inf]) == "payload[0] is inf, which JSON cannot carry as it is: pass None or a string"
    assert refused(MSGPACK, bytearray(b"x")).startswith("payload is a bytearray, which MessagePack cannot carry")


# Plain annotations


@BOTH
@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        ("x", int, "int, got str"),
        (True, int, "int, got bool"),
        (1.0, int, "int, got float"),
        (1, str, "str, got int"),
        (None, str, "str, got None"),
        (1, None, "None, got int"),
        (True, float, "float, got bool"),
        (Level.LOW, int, "int, got Level"),
        (Text("x"), str, "str, got Text"),
        ([], dict, "dict, got list"),
        ({}, list[typing.Any], "list[Any], got dict"),
        (1.5, str | int | None, "str | int | None, got float"),
    ],
)
def test_a_value_of_another_type_than_annotated_is_refused(made, value, type, expected):
    assert refused(made, value, type) == (
        f"payload was expected to be {expected}: pass what is annotated, or change the annotation of the parameter"
    )


@BOTH
@pytest.mark.parametrize(
    ("value", "type"),
    [("x", str), (1, int), (None, str | None), ({"a": [1]}, dict[str, typing.Any]), ([None], list), ({}, object)],
)
def test_a_value_of_the_annotated_type_comes_back(made, value, type):
    assert exactly(round_trip(made, value, type), value)


@BOTH
def test_an_int_for_a_float_comes_back_as_the_equal_float(made):
    assert exactly(round_trip(made, 1, float), 1.0)
    assert exactly(round_trip(made, 1, float | None), 1.0)
    assert exactly(round_trip(made, 1, int | float), 1)
    assert refused(made, 2**53 + 1, float) == (
        "payload is an int that no float equals: annotate the parameter as int, or pass a float"
    )
    assert refused(made, math.nan, float) == (
        f"payload is nan, which {made.title} cannot carry as it is: pass None or a string"
    )
    assert refused(made, [2**64], list[int]).startswith("payload[0] is an int outside 64 bits")


# Rich annotations

RICH = [
    (Order(1, [Line("a", when=NOW), Line("b", data={"x": [1, None]})]), Order),
    ([Order(1)], list[Order]),
    ({"a": Order(1)}, dict[str, Order]),
    (None, Order | None),
    (Order(1), Order | None),
    (Point(1, {"a", "b"}), Point),
    (User(name="ann", born=dt.date(2000, 1, 2)), User),
    ([User(name="ann")], list[User]),
    ({"a": User(name="ann")}, dict[str, User]),
    (User(name="ann"), User | None),
    (Strict(at=NOW, nickName="ann"), Strict),
    (Account(number=1), Account),
    ({"city": "Bern", "since": dt.date(2020, 1, 2)}, Address),
    ({"city": "Bern"}, Address),
    (Pair(1, [2]), Pair),
    (NOW, dt.datetime),
    (dt.datetime(2024, 1, 2), dt.datetime),
    (dt.date(2024, 1, 2), dt.date),
    (dt.time(1, 2, 3), dt.time),
    (dt.timedelta(days=1, microseconds=5), dt.timedelta),
    (uuid.UUID(int=5), uuid.UUID),
    (decimal.Decimal("1.10"), decimal.Decimal),
    (Colour.RED, Colour),
    (Level.LOW, Level),
    ((1, "a"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    ({1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    (b"\xff\x00", bytes),
    ("a", typing.Literal["a", "b"]),
    ({1: "a"}, dict[int, str]),
    ({Colour.RED: NOW}, dict[Colour, dt.datetime]),
    (5, typing.Annotated[int, msgspec.Meta(ge=0)]),
    ([1, "a", None], list[int | str | None]),
]


@BOTH
@pytest.mark.parametrize(("value", "type"), RICH, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_rich_values_come_back_by_annotation(made, value, type):
    back = round_trip(made, value, type)
    assert back == value
    assert back.__class__ is value.__class__


@BOTH
def test_classes_without_equality_are_compared_by_their_fields(made):
    back = round_trip(made, Incomparable(7), Incomparable)
    assert back.id == 7
    assert isinstance(round_trip(made, Empty(), Empty), Empty)


@BOTH
def test_a_datetime_keeps_its_instant_even_in_the_hour_that_a_clock_change_repeats(made):
    sent = dt.datetime(2023, 10, 29, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    back = round_trip(made, sent, dt.datetime)
    assert back.astimezone(dt.UTC) == sent.astimezone(dt.UTC)
    assert refused(made, dt.datetime(2023, 10, 29, 2, 30, fold=1), dt.datetime).startswith(
        f"payload is a datetime that {made.title} would bring back different"
    )


def test_an_offset_that_json_would_round_is_refused():
    sent = dt.datetime(1800, 1, 1, tzinfo=dt.timezone(dt.timedelta(minutes=53, seconds=28)))
    assert refused(JSON, sent, dt.datetime) == (
        "payload is a datetime that JSON would bring back different: pass one that equals its own copy"
    )


@BOTH
@pytest.mark.parametrize(
    ("value", "type", "says"),
    [
        (Order("x"), Order, "order.id was expected to be int, got str: "),
        ({"id": 1}, Order, "order was expected to be Order, got dict: "),
        (SpecialOrder(1), Order, "order was expected to be Order, got SpecialOrder: "),
        (Order(1, [Line("a"), {"sku": "b"}]), Order, "order.items[1] was expected to be Line, got dict: "),
        (Order(1, [Line("a", price=math.nan)]), Order, "order.items[0].price is nan, "),
        (Order(1, [Line("a", data={"k": {1}})]), Order, "order.items[0].data.k is a set, "),
        (Order(1, [Line("a", data=Level.LOW)]), Order, "order.items[0].data is a Level, "),
        (Order(1, [Line("a", data=nested(65))]), Order, "order.items[0].data is nested deeper "),
        ([1, "a"], list[int], "order[1] was expected to be int, got str: "),
        ({"a": 1, "b": None}, dict[str, int], "order.b was expected to be int, got None: "),
        ((1, "a"), tuple[int, int], "order[1] was expected to be int, got str: "),
        ([1], tuple[int, ...], "order was expected to be tuple[int, ...], got list: "),
        ((1,), typing.Sequence[int], "order was expected to be Sequence[int], got tuple: "),
        ({True}, set[int], "order does not fit its annotation set[int] "),
        ({"city": 1}, Address, "order.city was expected to be str, got int: "),
        ({}, Address, "order does not fit its annotation Address (Object missing required field `city`): "),
        ({"city": "B", "zip": 1}, Address, "order has the key 'zip', which would not come back: declare it "),
        (Pair(1, (2,)), Pair, "order.right is a tuple, "),
        (NOW.isoformat(), dt.datetime, "order was expected to be datetime, got str: "),
        ("red", Colour, "order was expected to be Colour, got str: "),
        ("c", typing.Literal["a"], "order was expected to be Literal['a'], got str (Invalid enum value 'c'): "),
        (collections.OrderedDict(a=1), dict[str, int], "order was expected to be dict[str, int], got OrderedDict: "),
        (decimal.Decimal("nan"), decimal.Decimal, "order is a Decimal that "),
        (User(name="ann", data={1}), User, "order.data is a set, and would come back as a list: annotate the field "),
        (User(name="a", weight=math.nan), User, "order does not fit its annotation User (weight: Input should be "),
        ([User(name="a"), 3], list[User], "order[1] was expected to be User, got int (Input should be an object): "),
        (User.model_construct(name=3), User, "order does not fit its annotation User (name: Input should be "),
        (Guarded(password="x"), Guarded, "order.password is a SecretStr that "),
        (Point("x"), Point, "order.x was expected to be int, got str: "),
        (object(), typing.Hashable, "order is an object, which "),
    ],
    ids=lambda value: "" if isinstance(value, str) else repr(value).partition(" at 0x")[0][:40],
)
def test_rich_values_that_would_change_are_refused_with_their_path(made, value, type, says):
    assert refused(made, value, type, path="order").startswith(says)


def test_constraints_are_checked_before_a_job_is_enqueued():
    assert refused(JSON, -1, typing.Annotated[int, msgspec.Meta(ge=0)]) == (
        "payload does not fit its annotation Annotated[int, Meta(ge=0)] (Expected `int` >= 0): "
        "pass a value that fits, or change the annotation of the parameter"
    )


def test_a_value_that_no_codec_knows_is_refused():
    assert refused(JSON, [Job()], list[Job]) == (
        "payload[0] is a Job, which JSON cannot carry (Job is not a type that a codec knows): pass plain values"
    )
    with pytest.raises(PayloadError, match="payload does not fit its annotation: Job is not a type that a codec knows"):
        JSON.decode(b"{}", Job)


@BOTH
def test_rich_values_have_the_same_limit_of_levels(made):
    node = Node()
    for _ in range(70):
        node = Node(node)
    assert "is nested deeper than 64 levels: flatten it, or pass it as text" in refused(made, node, Node)
    node.child = node
    assert refused(made, node, Node) == "payload.child contains itself: pass a value without cycles"


@BOTH
def test_an_annotation_that_cannot_be_decoded_carries_plain_values_only(made):
    either = dt.datetime | str
    assert round_trip(made, "2024", either) == "2024"
    message = refused(made, NOW, either)
    assert message.startswith(
        f"payload is a datetime, and {made.title} cannot decode the annotation datetime | str (Type unions may not"
    )
    assert message.endswith("): annotate the parameter with one type, or pass plain values")


def test_an_annotation_that_cannot_be_hashed_works_too():
    annotation = typing.Annotated[int, ["a list"]]
    assert round_trip(JSON, 1, annotation) == 1


@BOTH
def test_bytes_that_do_not_fit_the_type_are_refused_with_their_path(made):
    data = made.encode({"id": 1, "items": [{"sku": 2}]})
    with pytest.raises(PayloadError) as caught:
        made.decode(data, Order)
    assert caught.value.path == "payload.items[0].sku"
    assert str(caught.value) == ("payload.items[0].sku does not fit its annotation: Expected `str`, got `int`")


def test_bytes_of_another_codec_are_refused():
    for made, data in ((JSON, MSGPACK.encode({"a": 1})), (MSGPACK, b"\xc1")):
        with pytest.raises(PayloadError, match=rf"payload is not {made.title} .*: decode it with the codec that wrote"):
            made.decode(data)


# Signatures: binding


def send(to: str, template: str = "plain", *, urgent: bool = False) -> None: ...


def everything(first, /, second=2, *rest: int, key, other=None, **options: str): ...


def call(fn, *args, made=JSON, inject=(), **kwargs):
    """The arguments that a worker would call the handler with."""
    signature = Signature.of(fn, inject=inject)
    return signature.decode(signature.encode(args, kwargs, made), made)


def test_arguments_travel_by_name_and_defaults_stay_with_the_worker():
    signature = Signature.of(send)
    assert signature.bind(("ann",), {"urgent": True}) == {"to": "ann", "urgent": True}
    assert signature.encode(("ann", "welcome"), {}, JSON) == b'{"to":"ann","template":"welcome"}'
    assert signature.decode(b'{"to":"ann"}', JSON) == ((), {"to": "ann"})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "send() missing 1 required positional argument: 'to'"),
        (("a", "b", "c"), {}, "send() takes from 1 to 2 positional arguments but 3 were given"),
        (("a",), {"to": "b"}, "send() got multiple values for argument 'to'"),
        (("a",), {"cc": "b"}, "send() got an unexpected keyword argument 'cc'"),
    ],
)
def test_a_wrong_call_raises_what_python_would_raise(args, kwargs, message):
    signature = Signature.of(send)
    for attempt in (lambda: signature.bind(args, kwargs), lambda: signature.encode(args, kwargs, JSON)):
        with pytest.raises(TypeError) as caught:
            attempt()
        assert str(caught.value) == message
        assert not isinstance(caught.value, PayloadError)


@BOTH
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {"key": 2}),
        ((1, 3), {"key": 2}),
        ((1, 3, 4, 5), {"key": 2, "other": None}),
        ((1,), {"key": 2, "first": "again", "rest": "too", "options": "x"}),
    ],
)
def test_every_kind_of_parameter_arrives_as_it_was_passed(made, args, kwargs):
    def handler(first, /, second=2, *rest: int, key, other=None, **options: str):
        return first, second, rest, key, other, options

    arrived, by_name = call(handler, *args, made=made, **kwargs)
    assert handler(*arrived, **by_name) == handler(*args, **kwargs)


def test_variadic_arguments_travel_under_their_own_names():
    data = Signature.of(everything).encode((1, 2, 3), {"key": 4, "color": "red"}, JSON)
    assert JSON.decode(data) == {"first": 1, "key": 4, "second": 2, "rest": [3], "options": {"color": "red"}}
    with pytest.raises(PayloadError, match=r"^rest\[1\] was expected to be int, got str"):
        Signature.of(everything).encode((1, 2, 3, "x"), {"key": 4}, JSON)
    with pytest.raises(PayloadError, match=r"^options.color was expected to be str, got int"):
        Signature.of(everything).encode((1,), {"key": 4, "color": 5}, JSON)


def test_typed_keyword_arguments_are_checked_by_their_typed_dict():
    def handler(**address: typing.Unpack[Address]): ...

    assert call(handler, city="Bern", since=dt.date(2020, 1, 2)) == (
        (),
        {"city": "Bern", "since": dt.date(2020, 1, 2)},
    )
    with pytest.raises(PayloadError, match=r"^address.city was expected to be str, got int"):
        call(handler, city=1)


def test_parameters_may_have_any_name():
    def handler(unset, payload=1, _unset=2, self=3, type=4, __struct_fields__=5, bind=6): ...

    assert call(handler, 0, self=7, __struct_fields__=8, bind=9) == (
        (),
        {"unset": 0, "self": 7, "__struct_fields__": 8, "bind": 9},
    )


def test_a_handler_without_parameters_has_an_empty_payload():
    def handler(): ...

    assert Signature.of(handler).encode((), {}, JSON) == b"{}"
    assert call(handler) == ((), {})


# Signatures: annotations


@BOTH
def test_arguments_come_back_by_annotation(made):
    def handler(order: Order, at: dt.datetime, n: int = 0, *, user: User | None = None): ...

    args = Order(1, [Line("a", when=NOW)]), NOW
    assert call(handler, *args, user=User(name="ann"), made=made) == (
        (),
        {"order": args[0], "at": NOW, "user": User(name="ann")},
    )


def test_paths_start_with_the_name_of_the_argument():
    def handler(order: Order, extra): ...

    signature = Signature.of(handler)
    with pytest.raises(PayloadError) as caught:
        signature.encode((Order(1, [Line("a"), Line("b", data=NOW)]), 1), {}, JSON)
    assert caught.value.path == "order.items[1].data"
    assert str(caught.value) == (
        "order.items[1].data is a datetime, which JSON cannot carry as it is: "
        "annotate the field as datetime, or pass a string"
    )
    with pytest.raises(PayloadError) as caught:
        signature.encode((Order(1), {"when": NOW}), {}, JSON)
    assert str(caught.value) == (
        "extra.when is a datetime, which JSON cannot carry as it is: "
        "annotate the parameter as datetime, or pass a string"
    )


def test_an_annotation_that_nobody_can_resolve_is_like_none():
    def handler(a: "Nowhere", b: "int", c: 5): ...  # noqa: F821

    assert call(handler, {"x": 1}, 2, 3) == ((), {"a": {"x": 1}, "b": 2, "c": 3})
    with pytest.raises(PayloadError, match=r"^b was expected to be int, got str"):
        call(handler, 1, "2", 3)


def test_one_annotation_that_cannot_be_decoded_leaves_the_others_typed():
    def handler(a: dt.datetime | str, b: dt.date): ...

    assert call(handler, "x", dt.date(2020, 1, 2)) == ((), {"a": "x", "b": dt.date(2020, 1, 2)})
    with pytest.raises(PayloadError, match=r"^a is a datetime, and JSON cannot decode the annotation"):
        call(handler, NOW, dt.date(2020, 1, 2))


def test_partials_methods_and_callable_objects_are_handlers_too():
    class Mailer:
        def __call__(self, n: int): ...

        def send(self, day: dt.date): ...

    day = dt.date(2020, 1, 2)
    assert call(Mailer(), 1) == ((), {"n": 1})
    assert call(Mailer().send, day) == ((), {"day": day})
    assert call(functools.partial(Mailer().send), day) == ((), {"day": day})
    assert Signature.of(Mailer()).name == "Mailer"


def test_a_function_that_python_cannot_read_is_refused():
    with pytest.raises(ConfigError) as caught:
        Signature.of(dict)
    assert str(caught.value) == (
        "<class 'dict'> has no signature that Python can read: wrap it in a function with named parameters"
    )


# Signatures: injection


def test_the_job_is_injected_and_never_travels():
    def handler(
        job: Job,
        to: str,
        *,
        same: Job | None = None,
        typed: typing.Optional[Job[int]] = None,  # noqa: UP045
        noted: typing.Annotated[Job[str], "note"] = None,
        checked: "Job | Nowhere" = None,  # noqa: F821
    ): ...

    signature = Signature.of(handler, inject=(Job,))
    assert signature.injected == ("job", "same", "typed", "noted")
    assert signature.bind(("ann",), {}) == {"to": "ann"}
    assert Signature.of(handler).injected == ()


def test_a_job_imported_for_type_checkers_only_is_still_found():
    def handler(job: "Task[int] | None", to: "Nowhere"): ...  # noqa: F821

    def task_class():
        class Task(typing.Generic[T]): ...

        return Task

    assert Signature.of(handler, inject=(task_class(),)).injected == ("job",)


def test_a_job_that_cannot_be_passed_by_name_is_refused():
    def first(job: Job, /): ...

    def before(job: Job, *rest): ...

    def after(*rest, job: Job): ...

    for handler in (first, before):
        with pytest.raises(ConfigError) as caught:
            Signature.of(handler, inject=(Job,))
        assert str(caught.value) == (
            f"{handler.__name__}() must take 'job' by keyword: declare it after a * in the signature"
        )
    assert call(after, 1, 2, inject=(Job,)) == ((1, 2), {})


def test_a_caller_cannot_pass_the_job():
    def open_ended(job: Job, **options): ...

    def closed(job: Job): ...

    for handler in (open_ended, closed):
        with pytest.raises(TypeError) as caught:
            Signature.of(handler, inject=(Job,)).bind((), {"job": 1})
        assert str(caught.value) == f"{handler.__name__}() got an unexpected keyword argument 'job'"
    assert call(open_ended, a=1, inject=(Job,)) == ((), {"a": 1})


# Signatures: payloads of other versions


@pytest.mark.parametrize(
    ("payload", "reason", "path"),
    [
        ({}, "argument 'to' is missing", "to"),
        ({"to": 1}, "payload.to does not fit its annotation: Expected `str`, got `int`", "payload.to"),
        (
            {"to": "a", "cc": "b"},
            "payload does not fit its annotation: Object contains unknown field `cc`",
            "payload",
        ),
        ([], "payload does not fit its annotation: Expected `object`, got `array`", "payload"),
    ],
)
@BOTH
def test_a_payload_that_does_not_fit_says_why_and_what_to_do(made, payload, reason, path):
    with pytest.raises(PayloadError) as caught:
        Signature.of(send).decode(made.encode(payload), made)
    assert caught.value.path == path
    assert str(caught.value) == (
        f"send() cannot take this payload ({reason}): another version of the code may have sent it; "
        "let send() accept what older producers send, or cancel the job and enqueue it again"
    )


def test_extra_positionals_need_all_that_come_before():
    with pytest.raises(PayloadError, match=r"\(argument 'second' is missing before \*rest\)"):
        Signature.of(everything).decode(b'{"first":1,"key":2,"rest":[3]}', JSON)


class Reversed:
    """A codec of a user's own that knows nothing of types."""

    name = "reversed"

    def encode(self, value, type=typing.Any, *, path="payload"):
        return JSON.encode(value, path=path)[::-1]

    def decode(self, data, type=typing.Any):
        return JSON.decode(data[::-1])


class Sealed:
    """A codec of a user's own that wraps another, and so keeps its types."""

    name = "sealed"

    def encode(self, value, type=typing.Any, *, path="payload"):
        return b"sealed:" + JSON.encode(value, type, path=path)

    def decode(self, data, type=typing.Any):
        if not data.startswith(b"sealed:"):
            raise RuntimeError("the seal is broken")
        return JSON.decode(data.removeprefix(b"sealed:"), type)


def test_a_codec_of_a_users_own_carries_calls():
    def handler(order: Order): ...

    assert call(send, "ann", urgent=True, made=Reversed()) == ((), {"to": "ann", "urgent": True})
    assert call(everything, 1, 2, 3, key=4, made=Reversed()) == ((1, 2, 3), {"key": 4})
    assert call(handler, Order(1), made=Sealed()) == ((), {"order": Order(1)})
    with pytest.raises(PayloadError, match=r"^order.id was expected to be int, got str"):
        call(handler, Order("x"), made=Sealed())


def test_what_a_codec_of_a_users_own_decodes_is_checked_against_the_signature():
    signature, made = Signature.of(send), Reversed()
    for payload, reason in (
        ({"cc": 1, "to": "a"}, "argument 'cc' is unknown"),
        ({"template": "a"}, "argument 'to' is missing"),
        ([1], "payload is a list, not an object of arguments"),
    ):
        with pytest.raises(PayloadError) as caught:
            signature.decode(made.encode(payload), made)
        assert str(caught.value).startswith(f"send() cannot take this payload ({reason}): ")
    with pytest.raises(PayloadError, match=r"^send\(\) cannot take this payload \(the seal is broken\)"):
        signature.decode(b"", Sealed())


# Results


def returning(annotation: object) -> Signature:
    def handler(): ...

    handler.__annotations__["return"] = annotation
    return Signature.of(handler)


@BOTH
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (None, None),
        (typing.Any, {"a": [1, None]}),
        (Order, Order(1)),
        (typing.Awaitable[dt.date], dt.date(2020, 1, 2)),
        (typing.Coroutine[None, None, dt.date], dt.date(2020, 1, 2)),
        (typing.NoReturn, None),
        (T, [1]),
    ],
)
def test_results_come_back_by_the_return_annotation(made, annotation, value):
    signature = returning(annotation)
    assert signature.decode_result(signature.encode_result(value, made), made) == value


def test_a_coroutine_returns_what_it_is_annotated_with():
    async def handler() -> dt.date: ...

    assert Signature.of(handler).returns is dt.date


@BOTH
def test_none_is_a_result_and_no_annotation_is_strict(made):
    signature = Signature.of(everything)
    assert signature.decode_result(signature.encode_result(None, made), made) is None
    with pytest.raises(PayloadError) as caught:
        signature.encode_result({"when": [NOW]}, made)
    assert str(caught.value) == (
        f"result.when[0] is a datetime, which {made.title} cannot carry as it is: "
        "annotate the return value as datetime, or pass a string"
    )


def test_a_result_that_does_not_fit_its_annotation_is_refused():
    signature = returning(Order)
    with pytest.raises(PayloadError) as caught:
        signature.encode_result(None, JSON)
    assert str(caught.value) == (
        "result was expected to be Order, got None (Expected `object`, got `null`): "
        "pass what is annotated, or change the annotation of the return value"
    )
    with pytest.raises(PayloadError) as caught:
        signature.encode_result(Order(1, [3]), JSON)
    assert caught.value.path == "result.items[0]"


def test_a_stored_result_of_another_version_says_so():
    with pytest.raises(PayloadError) as caught:
        returning(Order).decode_result(b'{"id":"x"}', JSON)
    assert caught.value.path == "payload.id"
    assert str(caught.value) == (
        "the result of handler() cannot be read (payload.id does not fit its annotation: Expected `int`, got `str`): "
        "another version of the code may have written it; read it with that version, or run the job again"
    )
