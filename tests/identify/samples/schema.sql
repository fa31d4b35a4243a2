CREATE TABLE station (
    id INTEGER PRIMARY KEY,
    name VARCHAR(80) NOT NULL UNIQUE,
    latitude DOUBLE PRECISION CHECK (latitude BETWEEN -90 AND 90)
);

CREATE TABLE reading (
    station_id INTEGER REFERENCES station (id) ON DELETE CASCADE,
    taken_at TIMESTAMP NOT NULL,
    level_cm NUMERIC(6, 1),
    PRIMARY KEY (station_id, taken_at)
);

INSERT INTO station (id, name, latitude) VALUES (17, 'Harbour', 53.55), (21, 'Lighthouse', 54.01);

SELECT s.name, MAX(r.level_cm) AS highest
FROM station AS s
LEFT JOIN reading AS r ON r.station_id = s.id
WHERE r.taken_at >= CURRENT_DATE - INTERVAL '7' DAY
GROUP BY s.name
ORDER BY highest DESC;
