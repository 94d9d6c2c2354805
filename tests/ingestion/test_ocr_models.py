"""The OCR's models: cut rightly, unpacked once, found where they are named."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import yaml

from assistant.core.errors import Misconfigured
from ingestion.readers.ocrmodels import find_models, speaks_europe
from ingestion.readers.onnxcut import NotCuttable, cut_recogniser, read_characters

SMALL = Path(str(files("rapidocr"))) / "models" / "PP-OCRv6_rec_small.onnx"
TINY = Path(str(files("ingestion.readers"))) / "models" / "PP-OCRv6_rec_tiny.onnx"


def _session(model: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("file", [SMALL, TINY], ids=["small", "tiny"])
def test_a_cut_recogniser_says_what_the_whole_one_says_over_the_kept_characters(file: Path) -> None:
    whole = file.read_bytes()
    cut = cut_recogniser(whole, speaks_europe)
    picture = np.random.default_rng(1).random((1, 3, 48, 320), np.float32)
    before = _session(whole).run(None, {"x": picture})[0]
    after = _session(cut).run(None, {"x": picture})[0]

    characters, kept = read_characters(whole), read_characters(cut)
    columns = [0, *(characters.index(character) + 1 for character in kept), len(characters) + 1]
    expected = before[..., columns] / before[..., columns].sum(axis=-1, keepdims=True)  # softmax over fewer
    assert after.shape[-1] == len(kept) + 2
    np.testing.assert_allclose(after, expected, atol=1e-4)
    assert len(cut) < 0.7 * len(whole)


def test_the_kept_characters_write_european_documents() -> None:
    kept = set(read_characters(cut_recogniser(SMALL.read_bytes(), speaks_europe)))
    wanted = "ñÑáéíóúüÁÉÍÓÚÜ¿€ºª«»çÇàèìòùâêîôûäöß§£°%&@#–—“”’…·½ŁłŐőŞşĞğČčŽžαβγΩ→≤≥±×☐☑•■✓0123456789"
    assert [character for character in wanted if character not in kept] == []
    assert not any("\u4e00" <= character <= "\u9fff" for character in kept)


@pytest.mark.parametrize("broken", [b"", b"\x80", b"\xff" * 40, SMALL.read_bytes()[:1000]])
def test_what_is_no_recogniser_is_not_cut(broken: bytes) -> None:
    with pytest.raises(NotCuttable):
        cut_recogniser(broken, speaks_europe)


def test_many_processes_may_unpack_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: find_models(cache=tmp_path / "cache"), range(6)))
    assert len(set(found)) == 1
    left = sorted(path.name for path in (tmp_path / "cache").iterdir())
    assert len(left) == 4  # and nothing half-made
    for model in (found[0].detector, *found[0].recognisers):
        config = yaml.safe_load((model.folder / "inference.yml").read_text("utf-8"))
        assert config["Global"]["model_name"] == model.name
    dictionary = yaml.safe_load((found[0].full.folder / "inference.yml").read_text("utf-8"))["PostProcess"]
    assert dictionary["character_dict"] == read_characters(SMALL.read_bytes())


def test_a_named_folder_is_used_instead(tmp_path: Path) -> None:
    bundled = find_models(cache=tmp_path / "cache")
    for model in (bundled.detector, bundled.full):
        shutil.copytree(model.folder, tmp_path / "mine" / model.name)
    models = find_models(str(tmp_path / "mine"))
    assert (
        models.careful.folder == models.quick.folder == models.full.folder == tmp_path / "mine" / "PP-OCRv6_small_rec"
    )
    assert models.detector.folder.parent == tmp_path / "mine"


def test_a_folder_without_models_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"PP-OCRv6.*inference\.onnx"):
        find_models(str(tmp_path))


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Misconfigured, match="XDG_CACHE_HOME"):
        find_models(cache=tmp_path / "file" / "cache")
