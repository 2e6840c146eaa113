"""Tests of the shop: the jobs of a test are a part of its transaction, and run when it says so."""

from django.core import mail
from django.test import TestCase, TransactionTestCase

from holdfast.contrib.django import get_app
from holdfast.contrib.django.testing import arun_jobs, run_jobs
from orders.models import Order
from orders.tasks import confirm


class OrderTests(TestCase):
    """In a transaction that is rolled back at the end of each test."""

    def order(self, item: str = "lamp") -> int:
        """Place an order as a browser does, and return its number."""
        answer = self.client.post("/orders", {"item": item, "to": "ann@example.com"})
        self.assertEqual(answer.status_code, 202)
        return int(answer.json()["number"])

    def test_an_order_is_confirmed_by_its_job(self) -> None:
        number = self.order()
        self.assertFalse(self.client.get(f"/orders/{number}").json()["confirmed"])
        self.assertEqual([ran.outcome for ran in run_jobs()], ["completed"])
        self.assertTrue(self.client.get(f"/orders/{number}").json()["confirmed"])
        self.assertEqual([message.to for message in mail.outbox], [["ann@example.com"]])

    def test_an_order_that_cannot_be_says_why(self) -> None:
        number = self.order("unicorn")
        self.assertEqual([ran.outcome for ran in run_jobs()], ["failed"])
        self.assertIn("sold out", self.client.get(f"/orders/{number}").json()["trouble"])

    def test_two_orders_have_two_jobs(self) -> None:
        numbers = [self.order(), self.order()]
        page = get_app().sync(get_app().jobs(queue="mail"))
        self.assertEqual({job.id for job in page.jobs}, {f"order-{number}" for number in numbers})

    async def test_a_reminder_is_counted(self) -> None:
        order = await Order.objects.acreate(item="lamp", to="ann@example.com")
        answer = await self.async_client.post(f"/orders/{order.pk}/remind")
        self.assertEqual(answer.status_code, 202)
        await arun_jobs()
        await order.arefresh_from_db()
        self.assertEqual(order.reminders, 1)


class CommitTests(TransactionTestCase):
    """With transactions that are committed."""

    def test_an_order_that_is_rolled_back_leaves_no_job(self) -> None:
        with self.assertRaises(KeyError):
            self.client.post("/orders", {"item": "lamp"})
        self.assertEqual(Order.objects.count(), 0)
        self.assertEqual(run_jobs(), [])

    def test_a_job_can_be_called_as_a_function(self) -> None:
        order = Order.objects.create(item="lamp", to="ann@example.com")
        self.assertEqual(confirm(order.pk), f"order {order.pk} confirmed to ann@example.com")
