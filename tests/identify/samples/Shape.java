public abstract class Shape implements Comparable<Shape> {
    protected final String label;

    protected Shape(String label) {
        this.label = label;
    }

    public abstract double area();

    @Override
    public int compareTo(Shape other) {
        return Double.compare(area(), other.area());
    }

    static class Circle extends Shape {
        private final double radius;

        Circle(double radius) {
            super("circle");
            this.radius = radius;
        }

        @Override
        public double area() {
            return Math.PI * radius * radius;
        }
    }
}
