"""Code stands behind `if __name__ == "__main__"`, as in a script."""

ANSWERS = {
    "primes": """def main():
    global PRIMES, COUNT
    PRIMES = [n for n in range(2, 30) if all(n % d for d in range(2, n))]
    COUNT = len(PRIMES)


if __name__ == "__main__":
    main()
""",
}
