"""Questions about pictures."""

from __future__ import annotations

import pytest

from assistant.core.domain import Verdict
from assistant.core.errors import BadInput, EndpointDown
from assistant.core.prompts import load_prompt
from tests.assistant.test_answering import House
from tests.fakes import png

RECEIPT = "Contoso\n123 Main Street\nSub-Total $2,297.97\nTax $218.31\nTotal $2,516.28"


async def test_a_model_that_sees_gets_the_pictures_and_its_answer_streams() -> None:
    house = House(vlm=["The total is $2,516.28. The sky is blue [4]."])
    answer = await house.ask("What is the total on this receipt?", images=[png(), png()])
    assert answer.text == "The total is $2,516.28. The sky is blue."
    assert house.vlm is not None
    assert len(house.vlm.asked[0][-1].images) == 2
    assert "pictures" in house.vlm.asked[0][-1].text
    (usage,) = answer.usage
    assert (usage.purpose, usage.model, usage.visual_tokens) == ("picture", "fake-vlm", 512)
    assert usage.prompt == load_prompt("answer_picture").label


async def test_documents_that_bear_on_the_question_go_with_the_pictures() -> None:
    house = House(vlm=["The lease says 950 euros [1]."])
    answer = await house.ask("Is this the monthly rent of the flat in Vigo?", images=[png()])
    assert answer.citations[0].document == "lease.pdf"
    assert answer.sentences[0].verdict is Verdict.SUPPORTED


async def test_without_one_a_picture_is_read_by_ocr_and_the_answer_says_so() -> None:
    answer = await House(picture_text=RECEIPT).ask("What is the tax?", images=[png()])
    assert "read by OCR" in answer.text
    assert answer.quoted
    assert any("218.31" in sentence.text for sentence in answer.sentences)
    assert answer.citations[0].document == "attached picture"
    assert answer.citations[0].document_id == ""
    assert answer.citations[0].reader == "ocr"


async def test_a_question_about_the_whole_gets_the_whole_text() -> None:
    answer = await House(picture_text=RECEIPT).ask("¿Qué dice aquí?", images=[png()])
    assert "se leyó por OCR" in answer.text
    assert "123 Main Street" in answer.text


async def test_a_language_model_answers_from_what_ocr_read() -> None:
    house = House("The tax is $218.31 [1].", picture_text=RECEIPT)
    answer = await house.ask("What is the tax?", images=[png()])
    assert answer.text.endswith("\n\nThe tax is $218.31 [1].")
    assert "read by OCR" in answer.text
    assert answer.sentences[0].verdict is Verdict.SUPPORTED


async def test_a_silent_vlm_is_replaced_by_ocr() -> None:
    house = House(vlm=[EndpointDown("gone")], picture_text=RECEIPT)
    answer = await house.ask("What is the tax?", images=[png()])
    assert "cannot be reached" in answer.text and "218.31" in answer.text


async def test_a_picture_without_text() -> None:
    answer = await House().ask("What does it say?", images=[png()])
    assert answer.refused and "No text was found" in answer.text


async def test_a_bad_picture_is_an_error_for_the_person() -> None:
    with pytest.raises(BadInput):
        await House().ask("What is this?", images=[b"not a picture"])
