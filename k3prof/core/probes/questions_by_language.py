"""The same four easy questions in six languages: one of them may be broken where the others are not."""

from __future__ import annotations

from k3prof.core.probes.checks import says
from k3prof.core.probes.probe import Group, Probe, Style
from k3prof.core.probes.prose import prose


def _probes(
    language: Group,
    style: Style,
    *,
    sky: tuple[str, tuple[str, ...]],
    opposite: tuple[str, tuple[str, ...]],
    day: tuple[str, tuple[str, ...]],
    garden: str,
) -> tuple[Probe, ...]:
    prefix = language.lower()
    asked = {"sky": sky, "opposite": opposite, "day": day}
    short = tuple(
        Probe(f"{prefix}-{name}", language, question, accepted[0], says(*accepted), style)
        for name, (question, accepted) in asked.items()
    )
    shown = [answer for _, answer in style.examples]
    text = Probe(
        f"{prefix}-prose", language, garden, f"a sentence in {language}", prose(language, shown), style, tokens=64
    )
    return (*short, text)


LANGUAGE_PROBES: tuple[Probe, ...] = (
    *_probes(
        Group.ENGLISH,
        Style(
            "Question:",
            "Answer:",
            (
                ("What colour is grass?", "green"),
                ("Which day comes after Wednesday?", "Thursday"),
                ("Write one sentence about the sea.", "In the evening the sea is calm and the boats come home."),
            ),
        ),
        sky=("What colour is the sky on a clear day?", ("blue",)),
        opposite=("What is the opposite of big?", ("small", "little", "tiny")),
        day=("Which day comes after Monday?", ("Tuesday",)),
        garden="Write one sentence about a garden.",
    ),
    *_probes(
        Group.FRENCH,
        Style(
            "Question :",
            "Réponse :",
            (
                ("De quelle couleur est l'herbe ?", "verte"),
                ("Quel jour vient après mercredi ?", "jeudi"),
                ("Écris une phrase sur la mer.", "Le soir, la mer est calme et les bateaux rentrent au port."),
            ),
        ),
        sky=("De quelle couleur est le ciel par beau temps ?", ("bleu", "bleue")),
        opposite=("Quel est le contraire de grand ?", ("petit", "petite")),
        day=("Quel jour vient après lundi ?", ("mardi",)),
        garden="Écris une phrase sur un jardin.",
    ),
    *_probes(
        Group.GERMAN,
        Style(
            "Frage:",
            "Antwort:",
            (
                ("Welche Farbe hat Gras?", "grün"),
                ("Welcher Tag kommt nach Mittwoch?", "Donnerstag"),
                ("Schreibe einen Satz über das Meer.", "Am Abend ist das Meer ruhig und die Boote kommen zurück."),
            ),
        ),
        sky=("Welche Farbe hat der Himmel bei schönem Wetter?", ("blau",)),
        opposite=("Was ist das Gegenteil von groß?", ("klein",)),
        day=("Welcher Tag kommt nach Montag?", ("Dienstag",)),
        garden="Schreibe einen Satz über einen Garten.",
    ),
    *_probes(
        Group.SPANISH,
        Style(
            "Pregunta:",
            "Respuesta:",
            (
                ("¿De qué color es la hierba?", "verde"),
                ("¿Qué día viene después del miércoles?", "jueves"),
                (
                    "Escribe una frase sobre el mar.",
                    "Por la tarde el mar está en calma y los barcos vuelven a casa.",
                ),
            ),
        ),
        sky=("¿De qué color es el cielo en un día despejado?", ("azul",)),
        opposite=("¿Cuál es el contrario de grande?", ("pequeño", "pequeña", "chico")),
        day=("¿Qué día viene después del lunes?", ("martes",)),
        garden="Escribe una frase sobre un jardín.",
    ),
    *_probes(
        Group.CHINESE,
        Style(
            "问题：",
            "回答：",
            (
                ("草是什么颜色？", "绿色"),
                ("星期三后面是星期几？", "星期四"),
                ("写一句关于大海的话。", "傍晚的大海很平静，渔船慢慢回到港口。"),
            ),
        ),
        sky=("晴天的天空是什么颜色？", ("蓝", "藍")),
        opposite=("“大”的反义词是什么？", ("小",)),
        day=("星期一后面是星期几？", ("星期二", "周二", "礼拜二", "週二", "禮拜二")),
        garden="写一句关于花园的话。",
    ),
    *_probes(
        Group.JAPANESE,
        Style(
            "質問：",
            "答え：",
            (
                ("草は何色ですか。", "緑色"),
                ("水曜日の次は何曜日ですか。", "木曜日"),
                ("海について一文を書いてください。", "夕方の海は静かで、船がゆっくり港に帰ってきます。"),
            ),
        ),
        sky=("晴れた空は何色ですか。", ("青", "あお", "ブルー")),
        opposite=("「大きい」の反対は何ですか。", ("小さい", "ちいさい", "小")),
        day=("月曜日の次は何曜日ですか。", ("火曜",)),
        garden="庭について一文を書いてください。",
    ),
)
