package main

import (
	"encoding/json"
	"log"
	"net/http"
	"sync"
)

type counter struct {
	mu    sync.Mutex
	hits  map[string]int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits[r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(c.hits); err != nil {
		log.Printf("encode: %v", err)
	}
}

func main() {
	http.Handle("/", &counter{hits: make(map[string]int)})
	log.Fatal(http.ListenAndServe(":8080", nil))
}
