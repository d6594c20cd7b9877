"""Names, comments and strings in several scripts."""

ANSWERS = {
    "middle": """# Медиана: 中央値 ⏱
def médiane(größen):
    if not größen:
        raise ValueError("пусто 🈳")
    σ = sorted(größen)
    return (σ[(len(σ) - 1) // 2] + σ[len(σ) // 2]) / 2


middle = médiane
""",
}
