package org.example.store;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

public final class Inventory {
    private final List<Product> products = new ArrayList<>();

    public void add(Product product) {
        if (product == null) {
            throw new IllegalArgumentException("product");
        }
        products.add(product);
    }

    public Optional<Product> cheapest() {
        return products.stream().min(Comparator.comparingDouble(Product::getPrice));
    }

    public static void main(String[] args) {
        Inventory inventory = new Inventory();
        for (String name : args) {
            inventory.add(new Product(name, name.length() * 1.25));
        }
        System.out.println(inventory.cheapest().map(Product::getName).orElse("nothing"));
    }
}
