from dataclasses import dataclass, field
from decimal import Decimal
from typing import Iterator


class InsufficientFunds(Exception):
    pass


@dataclass
class Account:
    owner: str
    balance: Decimal = Decimal(0)
    history: list[Decimal] = field(default_factory=list)

    def deposit(self, amount: Decimal) -> None:
        if amount <= 0:
            raise ValueError("a deposit is positive")
        self.balance += amount
        self.history.append(amount)

    def withdraw(self, amount: Decimal) -> None:
        if amount > self.balance:
            raise InsufficientFunds(f"{self.owner} has only {self.balance}")
        self.balance -= amount
        self.history.append(-amount)

    def __iter__(self) -> Iterator[Decimal]:
        yield from self.history
