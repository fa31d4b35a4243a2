package sieve

// Generate sends 2, 3, 4, ... to the channel.
func Generate(ch chan<- int) {
	for i := 2; ; i++ {
		ch <- i
	}
}

// Filter copies values from in to out, without those divisible by prime.
func Filter(in <-chan int, out chan<- int, prime int) {
	for {
		if i := <-in; i%prime != 0 {
			out <- i
		}
	}
}

func First(n int) []int {
	primes := make([]int, 0, n)
	ch := make(chan int)
	go Generate(ch)
	for len(primes) < n {
		prime := <-ch
		primes = append(primes, prime)
		next := make(chan int)
		go Filter(ch, next, prime)
		ch = next
	}
	return primes
}
