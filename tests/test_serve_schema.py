"""Whatever the API's own description allows, and much that it does not: no request makes the server fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import schemathesis
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from bonafide.learn.saved import load
from bonafide.serve.application import serve_app
from bonafide.serve.service import Service
from bonafide.tasks.sql.readers import read_tables
from bonafide.web.guard import door
from served import SALES, document_model, listening, passage_model, text_model, write_run

torch.set_num_threads(1)
KINDS = ("sql", "discrete", "reading", "text")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("data")
    (folder / "sales.csv").write_text(SALES)
    tables = read_tables(folder / "sales.csv")
    others = (passage_model(), document_model(), text_model())
    services = (Service(load(write_run(folder)), tables), *map(Service, others))
    apps = [serve_app(each, door("127.0.0.1", max_body=each.limits.body)) for each in services]
    with ExitStack() as stack:
        yield {kind: stack.enter_context(listening(each)) for kind, each in zip(KINDS, apps, strict=True)}


def fuzz(address: str, examples: int) -> int:
    """Call every operation with data made from the schema, right and wrong; how many answers were seen.

    A schema cannot say which text is a table, so what it allows may be refused, with a reason.
    """
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    seen = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)))
        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def call(case: schemathesis.Case) -> None:
            nonlocal seen
            response = case.call()
            seen += 1
            assert response.status_code < 500, (case.body, response.text)
            if response.status_code != 413:  # for the checks that is no way to refuse a body that is also wrong
                case.validate_response(response, excluded_checks=[CHECKS.get_one("positive_data_acceptance")])

        call()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_request_that_the_schema_can_think_of_makes_the_server_fail(addresses: dict[str, str], kind: str) -> None:
    assert fuzz(addresses[kind], 60) > 100


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_nor_do_a_thousand_of_each(addresses: dict[str, str], kind: str) -> None:
    assert fuzz(addresses[kind], 1000) > 2000
