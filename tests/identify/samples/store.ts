export interface Item {
  readonly id: number;
  name: string;
  price?: number;
}

type Listener<T> = (value: T) => void;

export class Store<T extends Item> {
  private items = new Map<number, T>();
  private listeners: Array<Listener<T>> = [];

  public put(item: T): void {
    this.items.set(item.id, item);
    this.listeners.forEach((listener) => listener(item));
  }

  public get(id: number): T | undefined {
    return this.items.get(id);
  }

  public onChange(listener: Listener<T>): () => void {
    this.listeners.push(listener);
    return () => {
      this.listeners = this.listeners.filter((other) => other !== listener);
    };
  }

  public async total(): Promise<number> {
    return [...this.items.values()].reduce((sum: number, item: T) => sum + (item.price ?? 0), 0);
  }
}
