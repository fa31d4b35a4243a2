local Vector = {}
Vector.__index = Vector

function Vector.new(x, y)
  return setmetatable({ x = x or 0, y = y or 0 }, Vector)
end

function Vector.__add(a, b)
  return Vector.new(a.x + b.x, a.y + b.y)
end

function Vector:length()
  return math.sqrt(self.x ^ 2 + self.y ^ 2)
end

local total = Vector.new()
for i = 1, 10 do
  total = total + Vector.new(i, -i)
end
print(("length %.3f"):format(total:length()))

return Vector
