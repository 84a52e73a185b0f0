"""Examples, tables and stores at a URL: the same results as on the disk, and never a store that lacks a shard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bonafide.errors import BonafideError, InvalidFileError
from bonafide.search import run
from bonafide.search.places import Places
from bonafide.search.reading import search_reading
from bonafide.search.sql import search_sql
from bonafide.synth.reading import write_reading_benchmark
from bonafide.synth.sql import Benchmark, write_benchmark
from bonafide.tasks.sql.language import Language
from command_line import bonafide, contents, refused

SHARDS = 3
URL = "memory://data/train"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return write_benchmark(tmp_path_factory.mktemp("benchmark"), seed=0, tables=30, questions=40, max_conditions=1)


@pytest.fixture(scope="module")
def reference(data: Benchmark) -> dict[str, bytes]:
    search_sql(data.examples, data.store)
    return stored(data.store)


@pytest.fixture
def memory(data: Benchmark) -> Iterator[Any]:
    """A filesystem in memory that holds the examples and their tables."""
    system = fsspec.filesystem("memory")
    for path in (data.examples, data.tables):
        system.pipe_file(f"/data/train/{path.name}", path.read_bytes())
    yield system
    system.rm("/data", recursive=True)


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "timings.jsonl"}


def remote(system: Any, folder: str = "/data/solutions") -> dict[str, bytes]:
    names = [path for path in system.ls(folder, detail=False) if not path.endswith("timings.jsonl")]
    return {path.rpartition("/")[2]: system.cat_file(path) for path in names}


def search(out: str = "memory://data/solutions", examples: str = f"{URL}/examples.jsonl", **options: Any) -> Any:
    with Places() as places:
        path = places.file(examples, beside="tables.jsonl")
        return search_sql(path, places.out(out), places=places, **options)


def same_but_for_paths(found: dict[str, bytes], expected: dict[str, bytes]) -> bool:
    """Manifests say where the inputs are; everything else is to be the same to the byte."""
    manifests = [json.loads(store["manifest.json"]) for store in (found, expected)]
    for manifest in manifests:
        manifest.pop("checksum")
        for each in (*manifest["inputs"]["examples"], *manifest["inputs"]["tables"]):
            each.pop("path")
    shards = [
        {name: content for name, content in store.items() if name != "manifest.json"} for store in (found, expected)
    ]
    return manifests[0] == manifests[1] and shards[0] == shards[1]


def test_from_a_url_to_a_url_gives_the_same_bytes(memory: Any, reference: dict[str, bytes]) -> None:
    manifest = search()
    assert same_but_for_paths(remote(memory), reference)
    assert manifest["inputs"]["examples"][0]["path"] == f"{URL}/examples.jsonl"
    assert manifest["inputs"]["tables"][0]["path"] == f"{URL}/tables.jsonl"


def test_from_a_url_to_a_folder_and_the_reverse(
    data: Benchmark, memory: Any, reference: dict[str, bytes], tmp_path: Path
) -> None:
    manifest = search(str(tmp_path / "store"))
    assert manifest["inputs"]["examples"][0]["path"] == f"{URL}/examples.jsonl"
    assert same_but_for_paths(stored(tmp_path / "store"), reference)
    manifest = search("memory://data/elsewhere", str(data.examples))
    assert same_but_for_paths(remote(memory, "/data/elsewhere"), reference)
    assert manifest["inputs"]["examples"][0]["path"] == str(data.examples.resolve())


def test_documents_beside_the_examples_are_found_at_a_url(memory: Any, tmp_path: Path) -> None:
    write_reading_benchmark(tmp_path, seed=1, documents=3, questions=2, split="train")
    expected = search_reading(tmp_path / "examples.jsonl", tmp_path / "store")
    for name in ("examples.jsonl", "documents.jsonl"):
        memory.pipe_file(f"/data/texts/{name}", (tmp_path / name).read_bytes())
    with Places() as places:
        path = places.file("memory://data/texts/examples.jsonl", beside="documents.jsonl")
        found = search_reading(path, places.out("memory://data/read"), places=places)
    assert found["shards"] == expected["shards"]
    assert found["inputs"]["documents"][0]["path"] == "memory://data/texts/documents.jsonl"


class Interrupted(Exception):  # noqa: N818
    pass


def interrupted_after(examples: int) -> Any:
    done = 0

    def progress(more: int, _: int) -> None:
        nonlocal done
        done += more
        if done >= examples:
            raise Interrupted

    return progress


def test_an_interrupted_search_has_no_manifest_and_goes_on_from_its_shards(
    memory: Any, reference: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        search(progress=interrupted_after(1000))
    kept = remote(memory)
    assert set(kept) == {"search.json", "shard-00000.parquet", "shard-00001.parquet"}
    sent: list[str] = []
    put = type(memory).put_file

    def noted(self: Any, source: str, target: str, **options: Any) -> None:
        sent.append(target.rpartition("/")[2])
        put(self, source, target, **options)

    monkeypatch.setattr(type(memory), "put_file", noted)
    search()
    assert [name for name in sent if name.startswith("shard-")] == ["shard-00002.parquet"]
    assert sent[-1] == "manifest.json"
    assert same_but_for_paths(remote(memory), reference)


def test_a_search_that_was_interrupted_after_its_last_shard_is_finished(
    memory: Any, reference: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(run, "_finish", interrupt)
        with pytest.raises(Interrupted):
            search()
    assert "timings.jsonl" not in remote(memory)
    search()
    assert same_but_for_paths({**reference, **remote(memory)}, reference)


def test_a_damaged_shard_at_a_url_is_searched_anew(memory: Any, reference: dict[str, bytes]) -> None:
    search()
    memory.pipe_file("/data/solutions/shard-00001.parquet", b"PAR1 not a shard")
    memory.rm_file("/data/solutions/shard-00002.parquet")
    with pytest.raises(Interrupted):
        search(progress=interrupted_after(1000))
    assert "manifest.json" not in remote(memory)
    search()
    assert same_but_for_paths(remote(memory), reference)


def test_a_finished_store_at_a_url_is_left_alone(memory: Any) -> None:
    search()
    before = remote(memory)
    times = {path: memory.modified(path) for path in memory.ls("/data/solutions", detail=False)}
    search()
    assert remote(memory) == before
    assert {path: memory.modified(path) for path in times} == times


def test_another_search_at_the_url_is_refused_and_nothing_changes(memory: Any) -> None:
    search()
    before = remote(memory)
    with pytest.raises(BonafideError, match="memory://data/solutions already holds solutions of other inputs"):
        search(language=Language("typed"))
    with pytest.raises(BonafideError, match="memory://data/train is not empty and holds no solution store"):
        search(URL)
    assert remote(memory) == before


def test_problems_of_a_file_name_its_url(memory: Any) -> None:
    memory.pipe_file("/data/train/broken.jsonl", b'{"id": 1}\n')
    with pytest.raises(InvalidFileError, match=r"^memory://data/train/broken.jsonl has ") as caught:
        search(examples=f"{URL}/broken.jsonl")
    assert caught.value.path == f"{URL}/broken.jsonl"
    with pytest.raises(BonafideError, match=r"Cannot read memory://data/train/none.jsonl: there is no such file"):
        search(examples=f"{URL}/none.jsonl")


@pytest.mark.parametrize(
    ("url", "said"),
    [("gs://bucket/examples.jsonl", "gcsfs"), ("nowhere://x/examples.jsonl", "Protocol not known: nowhere")],
)
def test_storage_that_cannot_be_opened_says_what_is_missing(tmp_path: Path, url: str, said: str) -> None:
    message = refused(bonafide("search", "sql", "--examples", url, "--out", tmp_path / "out"))
    assert message.startswith(f"Cannot open {url}: ")
    assert said in message
    assert not (tmp_path / "out").exists()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a server that speaks S3, on this machine alone, with a bucket."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    client = pytest.importorskip("boto3").client("s3")
    client.create_bucket(Bucket="bucket")
    yield client
    client.close()
    server.stop()


def test_s3_holds_examples_tables_and_the_store(
    data: Benchmark, reference: dict[str, bytes], s3: Any, tmp_path: Path
) -> None:
    pytest.importorskip("s3fs")
    for path in (data.examples, data.tables):
        s3.put_object(Bucket="bucket", Key=f"train/{path.name}", Body=path.read_bytes())
    command = ("search", "sql", "--examples", "s3://bucket/train/examples.jsonl", "--out", "s3://bucket/solutions")
    estimated = bonafide(*command, "--dry-run")
    assert (estimated.code, "Nothing was written" in estimated.stdout) == (0, True), estimated
    done = bonafide(*command, "--workers", "2")
    assert done.code == 0, done
    assert "Written to s3://bucket/solutions." in done.stderr
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="bucket", Prefix="solutions/")["Contents"]]
    objects = {key.rpartition("/")[2]: s3.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}
    assert objects.pop("timings.jsonl").count(b"\n") == SHARDS
    assert same_but_for_paths(objects, reference)
    looked = [bonafide("inspect", store, "--json") for store in ("s3://bucket/solutions", data.store)]
    found, expected = ({**json.loads(each.stdout), "seconds_per_example": None} for each in looked)
    assert found == expected
    message = refused(bonafide("inspect", "s3://bucket/train"))
    assert message.startswith("s3://bucket/train is not a finished solution store")
    message = refused(bonafide(*command[:-1], "s3://no-such-bucket/solutions"))
    assert "s3://no-such-bucket/solutions" in message
    assert contents(tmp_path) == {}
